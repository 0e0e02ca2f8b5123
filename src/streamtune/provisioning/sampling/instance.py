"""One operator instance as a process: reads batches of keys from stdin, works on each, and says how many are done.

It runs by itself (``python -I instance.py KIND MEMORY_MB STATE_MB FOLDER``) and imports little, because its memory
limit counts the interpreter too. The four kinds stand for the operators of the paper's Table 1:

CO1   hashes a payload per record, on two threads (compute-bound, scales to two cores)
CO2   parses and counts words in plain Python (compute-bound, one core)
CMO1  updates keyed state in a file: as fast as memory while the page cache holds it, a cliff below its size
CMO2  keeps keyed state on a bounded heap and swaps the least recently used part to a file: a gradual rise
"""

from __future__ import annotations

import hashlib
import os
import struct
import sys
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

Work = Callable[[tuple[int, ...]], None]
HEADER = struct.Struct("<I")
RECORD = 512  # bytes of state per key
TOUCHED = 6  # keys of state that one record of a stateful operator reads
INTERPRETER_MB = 14.0  # what Python itself needs under the limit
_PAYLOAD = bytes(range(256)) * 64
_TEXT = "the quick brown fox jumps over the lazy dog and runs into the stream again "


def co1() -> Work:
    pool = ThreadPoolExecutor(2)

    def part(keys: tuple[int, ...]) -> None:
        for key in keys:
            hashlib.sha256(_PAYLOAD[key % 256 :]).digest()  # releases the interpreter lock

    def work(keys: tuple[int, ...]) -> None:
        half = len(keys) // 2
        other = pool.submit(part, keys[:half])
        part(keys[half:])
        other.result()

    return work


def co2() -> Work:
    def work(keys: tuple[int, ...]) -> None:
        for key in keys:
            counts: dict[str, int] = {}
            for word in (_TEXT * 6 + str(key)).split():
                counts[word] = counts.get(word, 0) + 1

    return work


def cmo1(state_mb: float, folder: str) -> Work:
    slots = max(1, int(state_mb * (1 << 20) / RECORD))
    file = os.open(os.path.join(folder, "state"), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    block = bytes(1 << 20)
    for _ in range(int(state_mb) + 1):
        os.write(file, block)
    os.fdatasync(file)

    def work(keys: tuple[int, ...]) -> None:
        for key in keys:
            for turn in range(TOUCHED):
                place = ((key + turn) * 2654435761 % slots) * RECORD
                digest = hashlib.sha256(os.pread(file, RECORD, place)).digest()
                if (key + turn) % 64 == 0:
                    os.pwrite(file, digest, place)

    return work


def cmo2(memory_mb: float, state_mb: float, folder: str) -> Work:
    keys_in_all = max(1, int(state_mb * (1 << 20) / RECORD))
    room = max(64, int((memory_mb - INTERPRETER_MB) * (1 << 20) / (2.2 * RECORD)))
    heap: OrderedDict[int, bytes] = OrderedDict()
    file = os.open(os.path.join(folder, "swap"), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.ftruncate(file, keys_in_all * RECORD)

    def work(keys: tuple[int, ...]) -> None:
        for key in keys:
            for turn in range(TOUCHED):
                # The square of a uniform key: a few keys are hot, as in real streams.
                slot = int(((key >> 4 * turn) % 65536 / 65536.0) ** 2 * keys_in_all)
                state = heap.pop(slot, None)
                if state is None:
                    state = os.pread(file, RECORD, slot * RECORD)
                heap[slot] = hashlib.sha256(state).digest() + state[32:]
                if len(heap) > room:
                    old, content = heap.popitem(last=False)
                    os.pwrite(file, content, old * RECORD)

    return work


def main() -> None:
    kind, memory_mb, state_mb, folder = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
    makers: dict[str, Callable[[], Work]] = {
        "CO1": co1,
        "CO2": co2,
        "CMO1": lambda: cmo1(state_mb, folder),
        "CMO2": lambda: cmo2(memory_mb, state_mb, folder),
    }
    work = makers[kind]()
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sink.write(HEADER.pack(0))  # ready
    sink.flush()
    while len(head := source.read(HEADER.size)) == HEADER.size:
        (count,) = HEADER.unpack(head)
        work(struct.unpack(f"<{count}Q", source.read(8 * count)))
        sink.write(HEADER.pack(count))
        sink.flush()


if __name__ == "__main__":
    main()
