package streamtune.workload;

/** One record: who it is, which key it belongs to, and the position of the operator that emitted it. */
public class Event {
    // Records of a usual size: a network buffer then holds a few of them, and backpressure shows within seconds.
    private static final byte[] PAYLOAD = new byte[240];

    public long id;
    public int key;
    public int from;
    public byte[] payload = PAYLOAD;

    public Event() {}

    public Event(long id, int key, int from) {
        this.id = id;
        this.key = key;
        this.from = from;
    }
}
