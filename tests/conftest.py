"""What all tests need from the process that runs them."""

from __future__ import annotations

import signal
import threading

from hypothesis import HealthCheck, settings

# Every run draws the same inputs. `--hypothesis-profile=few` is for runs that repeat on another build or on other
# versions what a full run has tested.
settings.register_profile(
    "all", max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
settings.register_profile("few", settings.get_profile("all"), max_examples=3)
settings.load_profile("all")

# A program that is started in the background inherits that Ctrl-C and hang-ups are ignored, and so would every process
# that a test starts to send them to it.
if threading.current_thread() is threading.main_thread():
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
