package streamtune.workload;

/** One record: who it is, which key it belongs to, and the position of the operator that emitted it. */
public class Event {
    public long id;
    public int key;
    public int from;

    public Event() {}

    public Event(long id, int key, int from) {
        this.id = id;
        this.key = key;
        this.from = from;
    }
}
