"""StreamTune's online tuner: Algorithm 2 of the paper, and the better one built on top of it.

Its settings and its memory load nothing; the tuner itself needs the extra ``streamtune[learn]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamtune.lazy import lazily

if TYPE_CHECKING:
    from streamtune.tuners.streamtune.estimator import Verdict
    from streamtune.tuners.streamtune.memory import Memory
    from streamtune.tuners.streamtune.pretrained import Pretrained
    from streamtune.tuners.streamtune.settings import StreamTuneSettings
    from streamtune.tuners.streamtune.tuner import PaperStreamTune, StreamTune
else:
    __getattr__ = lazily(
        __name__,
        {
            "estimator": ["Verdict"],
            "memory": ["Memory"],
            "pretrained": ["Pretrained"],
            "settings": ["StreamTuneSettings"],
            "tuner": ["PaperStreamTune", "StreamTune"],
        },
    )

__all__ = ["Memory", "PaperStreamTune", "Pretrained", "StreamTune", "StreamTuneSettings", "Verdict"]
