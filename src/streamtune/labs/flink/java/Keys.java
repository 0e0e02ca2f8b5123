package streamtune.workload;

import java.io.Serializable;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;

/**
 * One key per key group. Uniform draws from them load the subtasks of a keyed operator evenly at every parallelism, so
 * that the only skew of an emulated job is the one its physics asks for.
 */
final class Keys implements Serializable {
    private static final long serialVersionUID = 1L;

    private final int[] keyOfGroup;

    Keys(int keyGroups) {
        keyOfGroup = new int[keyGroups];
        boolean[] found = new boolean[keyGroups];
        for (int key = 0, missing = keyGroups; missing > 0; key++) {
            int group = KeyGroupRangeAssignment.assignToKeyGroup(key, keyGroups);
            if (!found[group]) {
                found[group] = true;
                keyOfGroup[group] = key;
                missing--;
            }
        }
    }

    int of(long id) {
        return keyOfGroup[(int) Long.remainderUnsigned(mix(id), keyOfGroup.length)];
    }

    /** A bijection that scatters neighbouring ids (the finaliser of SplitMix64). */
    static long mix(long value) {
        long z = value + 0x9e3779b97f4a7c15L;
        z = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L;
        z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL;
        return z ^ (z >>> 31);
    }
}
