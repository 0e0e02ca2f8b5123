"""The thesis' third study, *Timely Semantics*: is fresh data better, and how old may a model be?"""
