"""StreamTune's online tuner: Algorithm 2 of the paper, and the better one built on top of it."""

from streamtune.tuners.streamtune.estimator import Verdict
from streamtune.tuners.streamtune.memory import Memory
from streamtune.tuners.streamtune.pretrained import Pretrained
from streamtune.tuners.streamtune.settings import StreamTuneSettings
from streamtune.tuners.streamtune.tuner import PaperStreamTune, StreamTune

__all__ = ["Memory", "PaperStreamTune", "Pretrained", "StreamTune", "StreamTuneSettings", "Verdict"]
