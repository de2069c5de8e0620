"""How a run's process answers SIGINT, SIGTERM and SIGHUP, in processes of their own."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress

import pytest

LIMIT_S = 60.0
# Tests that were started with nohup ignore SIGHUP, and so would these processes.
PRELUDE = """
import os, signal, sys, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from cluster.runtime.stop_signals import *
"""


def run_script(body: str, *, stdin: int = subprocess.DEVNULL, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PRELUDE + textwrap.dedent(body)]
    return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, text=True, **options)  # type: ignore[call-overload,no-any-return]


def output_of(body: str) -> str:
    script = run_script(body, start_new_session=True)
    try:
        return script.communicate(timeout=LIMIT_S)[0].strip()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(script.pid, signal.SIGKILL)  # and what it left running
        script.wait(LIMIT_S)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_every_stop_signal_raises_keyboard_interrupt(number: signal.Signals) -> None:
    assert (
        output_of(
            f"""
        stop_at_signals()
        try:
            os.kill(os.getpid(), {number.value})
            time.sleep(60)
        except KeyboardInterrupt:
            print("interrupted")
        """
        )
        == "interrupted"
    )


def test_a_signal_during_a_finalizer_still_stops_the_run_and_prints_nothing() -> None:
    run = run_script(
        """
        class Finalized:
            def __del__(self):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.01)

        class Faulty:
            def __del__(self):
                raise ValueError("a bug")

        stop_at_signals()
        found = Finalized()
        del found
        try:
            check_stop()
            print("the finalizer let the signal through")
        except KeyboardInterrupt:
            print("stopped")
        found = Faulty()
        del found
        """,
        stderr=subprocess.PIPE,
    )
    output, errors = run.communicate(timeout=LIMIT_S)
    assert output.split() == ["stopped"]
    assert "KeyboardInterrupt" not in errors
    assert "ValueError: a bug" in errors  # others are shown


def test_further_signals_do_not_interrupt_a_save() -> None:
    assert (
        output_of(
            """
        stop_at_signals()
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        except KeyboardInterrupt:
            ignore_further_signals()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), number)
        check_stop()
        print("saved")
        """
        )
        == "saved"
    )


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_two_signals_at_once_do_not_prevent_the_save(second: signal.Signals) -> None:
    assert (
        output_of(
            f"""
        def save():
            ignore_further_signals()
            print("saved")

        stop_at_signals()
        both = (signal.SIGTERM, signal.Signals({second.value}))
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, both)
            for number in both:
                os.kill(os.getpid(), number)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, both)
            time.sleep(60)
        except KeyboardInterrupt:
            save()
        """
        )
        == "saved"
    )


def test_a_later_signal_interrupts_again() -> None:
    assert (
        output_of(
            """
        import cluster.runtime.stop_signals
        cluster.runtime.stop_signals.TOGETHER_S = 0.05
        stop_at_signals()
        for _ in range(2):
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(60)
            except KeyboardInterrupt:
                print("interrupted")
            time.sleep(0.1)
        """
        ).split()
        == ["interrupted"] * 2
    )


def test_nohup_keeps_a_run_going_when_its_terminal_closes() -> None:
    assert (
        output_of(
            """
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
        stop_at_signals()
        os.kill(os.getpid(), signal.SIGHUP)
        print("goes on")
        """
        )
        == "goes on"
    )


def test_shielded_processes_outlive_a_signal_to_everybody() -> None:
    assert (
        output_of(
            """
        import subprocess
        # A program with a handler of its own, as Ray's processes have.
        child = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(3)); "
        child += "print('up', flush=True); time.sleep(60)"
        stop_at_signals()
        with shielded():
            shielded = subprocess.Popen([sys.executable, "-S", "-c", child], stdout=subprocess.PIPE)
            shielded.stdout.readline()
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.sigpending() == {signal.SIGHUP}
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the one that waits
        shielded.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        print("alive" if shielded.poll() is None else "dead")
        shielded.kill()
        shielded.wait()
        """
        )
        == "alive"
    )


def test_a_signal_while_a_process_starts_ends_that_process_too() -> None:
    assert (
        output_of(
            """
        import multiprocessing
        if __name__ == "__main__":
            process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
            stop_at_signals()
            start = process.start
            def started_and_stopped():
                start()
                os.kill(os.getpid(), signal.SIGTERM)
            process.start = started_and_stopped
            try:
                start_shielded(process)
            except KeyboardInterrupt:
                print("stopped, and", "alive" if process.is_alive() else "dead")
        """
        )
        == "stopped, and dead"
    )


def test_a_closed_terminal_is_a_stop_also_when_too_many_files_are_open() -> None:
    assert (
        output_of(
            """
        import resource
        stop_at_signals()
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
        try:
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(60)
        except KeyboardInterrupt:
            print("interrupted")
        """
        )
        == "interrupted"
    )


def test_a_closed_terminal_stops_the_run_without_an_error_from_printing() -> None:
    terminal, ours = pty.openpty()
    said, says = os.pipe()
    body = f"""
        import fcntl, termios
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        stop_at_signals()
        try:
            print("up", flush=True)
            while True:  # a signal just before a sleep is handled after it
                time.sleep(0.1)
        except KeyboardInterrupt:
            print("stopped; continue with ...", flush=True)
            os.write({says}, b"ended in order")
    """
    process = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(body)],
        stdin=ours, stdout=ours, stderr=ours, start_new_session=True, pass_fds=[says],
    )  # fmt: skip
    os.close(ours)
    os.close(says)
    try:
        assert select.select([terminal], [], [], LIMIT_S)[0], "it does not start"
        assert os.read(terminal, 100).startswith(b"up")
        os.close(terminal)
        assert process.wait(LIMIT_S) == 0
        assert os.read(said, 100) == b"ended in order"
    finally:
        os.close(said)
        process.kill()
        process.wait(LIMIT_S)


def test_a_program_that_goes_on_has_its_handlers_back_and_forgets_the_request() -> None:
    assert (
        output_of(
            """
        def mine(*_):
            print("mine")
        for number in STOP_SIGNALS:
            signal.signal(number, mine)
        hook = sys.unraisablehook
        try:
            with handlers_restored():
                stop_at_signals()
                try:
                    os.kill(os.getpid(), signal.SIGTERM)
                    time.sleep(60)
                finally:
                    ignore_further_signals()
        except KeyboardInterrupt:
            check_stop()
        assert sys.unraisablehook is hook
        for number in STOP_SIGNALS:
            os.kill(os.getpid(), number)
        """
        ).split()
        == ["mine"] * 3
    )


def test_another_thread_leaves_the_handlers_alone() -> None:
    assert (
        output_of(
            """
        import threading
        before = [signal.getsignal(number) for number in STOP_SIGNALS]
        def work():
            with handlers_restored():
                stop_at_signals()
                ignore_further_signals()
                print([signal.getsignal(number) for number in STOP_SIGNALS] == before)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        """
        )
        == "True"
    )
