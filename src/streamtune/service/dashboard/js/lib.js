// The one door to the vendored libraries.
import htm from "../vendor/htm.js";
import { h, render, Component, Fragment } from "../vendor/preact.js";

export { useCallback, useEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
export { batch, computed, effect, signal, useComputed, useSignal, useSignalEffect } from "../vendor/signals.js";
export const html = htm.bind(h);
export { Component, Fragment, render };
