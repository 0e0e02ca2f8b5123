"""Where jobs run: one folder per engine behind one small interface."""

from streamtune.engines.base import Capabilities, Deployment, Engine, MeasurementWindow, NotReady

__all__ = ["Capabilities", "Deployment", "Engine", "MeasurementWindow", "NotReady"]
