"""Dies of, or lives through, the signal named."""

import faulthandler
import os
import signal
import subprocess
import sys
import time

name, mode = sys.argv[1:3]
number = getattr(signal, name)
print("before", signal.getsignal(number), flush=True)
if mode == "handled":
    print(signal.signal(number, lambda s, frame: print("handler", s, frame.f_code.co_name)))
elif mode == "ignored":
    signal.signal(number, signal.SIG_IGN)
elif mode == "back":
    signal.signal(number, lambda s, frame: None)
    print(signal.signal(number, signal.SIG_DFL))
elif mode == "faulthandler":
    faulthandler.enable()
elif mode == "caught":
    try:
        os.kill(os.getpid(), number)
        time.sleep(1)
    except KeyboardInterrupt:
        print("caught")
    sys.exit(0)
elif mode == "child":
    code = subprocess.run(
        [sys.executable, "-c", f"import os; os.kill(os.getpid(), {int(number)})"]
    ).returncode
    print("child", code)
    sys.exit(0)
elif mode == "blocked":
    signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    os.kill(os.getpid(), number)
    print("waited for", signal.sigwait([number]))
    sys.exit(0)
os.kill(os.getpid(), number)
if number == signal.SIGINT and mode == "plain":
    time.sleep(1)
print("after")
