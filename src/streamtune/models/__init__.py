"""What is learnt from histories: features, encoders, bottleneck classifiers, capacity curves, cost models, bundles."""
