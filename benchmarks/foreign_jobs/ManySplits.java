package foreign;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.Collection;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource.NumberSequenceSplit;
import org.apache.flink.api.java.typeutils.ResultTypeQueryable;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/** A generator with as many splits as a topic has partitions; by itself it has one for each instance of its start. */
final class ManySplits
        implements Source<Long, NumberSequenceSplit, Collection<NumberSequenceSplit>>, ResultTypeQueryable<Long> {
    private static final int SPLITS = 64;

    private final DataGeneratorSource<Long> inner;

    ManySplits(DataGeneratorSource<Long> inner) {
        this.inner = inner;
    }

    @Override
    public Boundedness getBoundedness() {
        return inner.getBoundedness();
    }

    @Override
    public SourceReader<Long, NumberSequenceSplit> createReader(SourceReaderContext context) throws Exception {
        return inner.createReader(context);
    }

    @Override
    public SplitEnumerator<NumberSequenceSplit, Collection<NumberSequenceSplit>> createEnumerator(
            SplitEnumeratorContext<NumberSequenceSplit> context) throws Exception {
        return inner.createEnumerator(wide(context));
    }

    @Override
    public SplitEnumerator<NumberSequenceSplit, Collection<NumberSequenceSplit>> restoreEnumerator(
            SplitEnumeratorContext<NumberSequenceSplit> context, Collection<NumberSequenceSplit> checkpoint)
            throws Exception {
        return inner.restoreEnumerator(context, checkpoint);
    }

    @Override
    public SimpleVersionedSerializer<NumberSequenceSplit> getSplitSerializer() {
        return inner.getSplitSerializer();
    }

    @Override
    public SimpleVersionedSerializer<Collection<NumberSequenceSplit>> getEnumeratorCheckpointSerializer() {
        return inner.getEnumeratorCheckpointSerializer();
    }

    @Override
    public TypeInformation<Long> getProducedType() {
        return Types.LONG;
    }

    /** The same context, but for the parallelism, by which the generator cuts its numbers into splits. */
    @SuppressWarnings("unchecked")
    private static SplitEnumeratorContext<NumberSequenceSplit> wide(
            SplitEnumeratorContext<NumberSequenceSplit> context) {
        return (SplitEnumeratorContext<NumberSequenceSplit>)
                Proxy.newProxyInstance(
                        ManySplits.class.getClassLoader(),
                        new Class<?>[] {SplitEnumeratorContext.class},
                        (proxy, method, arguments) -> {
                            if (method.getName().equals("currentParallelism")) {
                                return SPLITS;
                            }
                            try {
                                return method.invoke(context, arguments);
                            } catch (InvocationTargetException error) {
                                throw error.getCause();
                            }
                        });
    }
}
