"""The child process that holds a local model: llama.cpp's own server, for as long as standard input stays open.

Run by path, so that it imports neither pets nor numpy. It reads one JSON line (attributes of llama.cpp's parameters),
answers one line, ``{"at": url}`` or ``{"error": text}``, and ends when standard input does: also when its parent was
killed, since the kernel then closes the pipe. llama.cpp's own words go to standard error.
"""

import json
import os
import signal
import threading


def end_with_parent() -> None:
    """Block until standard input ends, then end the process at once, whatever its other threads do."""
    while os.read(0, 4096):
        pass
    os._exit(0)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle; it closes the pipe
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints must not be taken for the answer
    with os.fdopen(0, "rb", buffering=0, closefd=False) as unbuffered:  # read-ahead would lock out the watching thread
        line = unbuffered.readline()
    if not line.endswith(b"\n"):
        os._exit(0)
    settings = json.loads(line)
    threading.Thread(target=end_with_parent, daemon=True).start()  # also while the model loads
    # Threads that spin while they wait for each other are many times slower where other processes want the cores.
    os.environ["OMP_WAIT_POLICY"] = "passive"

    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings.pop("model")
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.pop("threads")
    for name, value in settings.items():
        setattr(params, name, value)
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        print(json.dumps({"error": str(error)}), file=answer, flush=True)
        os._exit(1)
    print(json.dumps({"at": server.listening_address}), file=answer, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
