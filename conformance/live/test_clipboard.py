"""The clipboard is read, lent to a paste and put back, whoever else is at it."""

import os
import signal
import subprocess
import time

import pytest

from clipboard import SECRET_HINT, Clipboard, caretakers
from helpers import window_id
from session import wait_until

TEXT = "pasted: héllo 日本 😀 {}[]|~ \"'\\"
PNG = b"\x89PNG\r\n\x1a\n" + os.urandom(300_000)
CTRL, KEY_LEFTCTRL, KEY_C = 4, 29, 46

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def board(desk):
    board = Clipboard(desk.session)
    board.clear()
    yield board
    board.end()
    board.clear()
    wait_until(lambda: not caretakers(desk), "the end of the caretakers")


def paste(client, text=TEXT, **arguments):
    return client.call("type_text", text=text, paste=True, **arguments)


# clipboard_read


def test_read_what_was_copied_during_the_lease(desk, board):
    board.copy("before")
    client = desk.server()
    client.acquire()
    assert client.call("clipboard_read").ok().data == {"text": None, "reason": "before_lease"}
    board.copy("during 日本 😀\n two lines")
    assert client.call("clipboard_read").ok().data == {"text": "during 日本 😀\n two lines"}
    board.clear()
    assert client.call("clipboard_read").ok().data == {"text": None, "reason": "nothing_copied"}


def test_read_needs_the_lease(desk, board):
    client = desk.server()
    assert client.call("clipboard_read").error == "lease_required"
    client.acquire()
    board.copy("once")
    assert client.call("clipboard_read").ok().data["text"] == "once"
    client.release()
    assert client.call("clipboard_read").error == "lease_required"
    client.acquire()
    assert client.call("clipboard_read").ok().data["reason"] == "before_lease"


def test_read_reasons(held, board):
    board.copy(PNG, "image/png")
    assert held.client.call("clipboard_read").ok().data == {"text": None, "reason": "not_text"}
    board.copy(b"x" * (1 << 20), "text/plain")
    assert held.client.call("clipboard_read").ok().data["text"] == "x" * (1 << 20)
    board.copy(b"x" * ((1 << 20) + 1), "text/plain")
    assert held.client.call("clipboard_read").ok().data == {"text": None, "reason": "too_large"}


def test_read_of_what_an_application_copied(held, board):
    field = held.desk.entry(3)
    held.client.call("type_text", text="from the field").ok()
    held.client.call("key", keys=["ctrl+a", "ctrl+c"]).ok()
    wait_until(lambda: board.paste() == b"from the field", "the application's copy")
    assert held.client.call("clipboard_read").ok().data["text"] == "from the field"
    assert field.text() == "from the field"


def test_read_of_an_owner_that_hangs(held, board):
    owner = board.copy("stuck")
    owner.send_signal(signal.SIGSTOP)
    begun = time.monotonic()
    result = held.client.call("clipboard_read")
    assert result.error == "deadline_exceeded" and time.monotonic() - begun < 4, result
    owner.send_signal(signal.SIGCONT)
    assert held.client.call("clipboard_read").ok().data["text"] == "stuck"


# paste


@pytest.mark.parametrize("toolkit", [3, 4])
def test_paste_into_a_field(held, board, toolkit):
    board.copy("the person's own")
    before = board.types()
    field = held.desk.entry(toolkit)
    target = window_id(held.client, field.app_id)
    result = paste(held.client, expect={"window_id": target}, submit=True).ok()
    facts = result.data
    assert (facts["accepted"], facts["observed"], facts["read"]) == (True, "sent", True), result
    assert facts["clipboard"] == "restored" and facts["submitted"] is True
    wait_until(lambda: field.events("activate"), "Return in the field")
    assert field.text() == TEXT
    assert board.types() == before and board.paste() == b"the person's own"


def test_paste_into_a_terminal(held, board):
    board.copy(PNG, "image/png")
    _, target = held.desk.foot_line()
    facts = paste(held.client, paste_keys="ctrl+shift+v", submit=True).ok().data
    assert facts["read"] is True and facts["clipboard"] == "restored", facts
    wait_until(lambda: target.read_text().endswith("\n"), "the line in the file")
    assert target.read_text() == TEXT + "\n"
    assert board.types() == ["image/png"] and board.paste("image/png") == PNG


def test_shift_insert_lends_the_primary_selection_too(held, board):
    """foot pastes that one."""
    board.copy("clip")
    board.copy("selected", None, "--primary")
    _, target = held.desk.foot_line()
    facts = paste(held.client, paste_keys="shift+Insert", submit=True).ok().data
    assert facts["read"] is True and facts["clipboard"] == "restored", facts
    wait_until(lambda: target.read_text().endswith("\n"), "the line in the file")
    assert target.read_text() == TEXT + "\n"
    assert board.paste() == b"clip" and board.paste(None, "--primary") == b"selected"


def test_an_empty_clipboard_is_empty_again(held, board):
    field = held.desk.entry(3)
    facts = paste(held.client).ok().data
    assert facts["clipboard"] == "cleared" and facts["read"] is True, facts
    wait_until(lambda: field.text() == TEXT, "the text in the field")
    assert board.types() == []


def test_many_pastes(held, board):
    board.copy("kept")
    field = held.desk.entry(4)
    for number in range(10):
        facts = paste(held.client, f"{number},").ok().data
        assert facts["read"] is True and facts["clipboard"] == "restored", (number, facts)
    wait_until(lambda: field.text() == "0,1,2,3,4,5,6,7,8,9,", "all of them")
    assert board.paste() == b"kept"
    wait_until(lambda: len(caretakers(held.desk)) == 1, "one owner alone")


def test_a_mebibyte(held, board):
    board.copy("small")
    _, target = held.desk.foot_line()
    text = ("0123456789abcde" * 4 + "\n") * (1 << 14)
    text = text[: (1 << 20)]
    facts = paste(held.client, text, paste_keys="ctrl+shift+v").ok().data
    assert facts["read"] is True and facts["clipboard"] == "restored", facts
    wait_until(lambda: target.stat().st_size >= len(text) - 61, "the text in the file", 30)
    assert text.startswith(target.read_text())
    too_long = paste(held.client, "é" * (1 << 19) + "x")
    assert too_long.error == "text_too_long", too_long


def test_nobody_reads(held, board):
    """A window that pastes nothing: that is told, and nothing is submitted."""
    board.copy("mine")
    canvas = held.desk.canvas(3)
    canvas.forget()
    result = paste(held.client, submit=True).ok()
    assert result.data["read"] is False and result.data["observed"] == "timeout", result
    assert result.data["clipboard"] == "restored" and result.data["submitted"] is False
    assert board.paste() == b"mine"
    assert "Return" not in {event["name"] for event in canvas.events("key")}


def test_a_busy_reader_that_asks_two_seconds_later(held, board):
    board.copy("own")
    field = held.desk.entry(3)
    window_id(held.client, field.app_id)
    field.process.send_signal(signal.SIGSTOP)
    try:
        running = held.client.call_later("type_text", text=TEXT, paste=True)
        time.sleep(2)
    finally:
        field.process.send_signal(signal.SIGCONT)
    facts = held.client.result(running).ok().data
    assert facts["read"] is True and facts["clipboard"] == "restored", facts
    wait_until(lambda: field.text() == TEXT, "the text in the field")
    assert board.paste() == b"own"


def test_a_reader_that_asked_gets_the_text_after_it_was_put_back(held, board):
    """It asked while the text was offered, and takes it two seconds later."""
    board.copy("own")
    field = held.desk.entry(3)
    window_id(held.client, field.app_id)
    field.process.send_signal(signal.SIGSTOP)
    big = "y" * 200_000
    try:
        running = held.client.call_later("type_text", text=big, paste=True)
        wait_until(lambda: SECRET_HINT in board.types(), "the offer")
        _, target = board.later_reader()
        time.sleep(0.3)
    finally:
        field.process.send_signal(signal.SIGCONT)
    facts = held.client.result(running).ok().data
    assert facts["read"] is True, facts
    assert board.paste() == b"own"
    wait_until(target.exists, "the late reader's end", 10)
    assert target.read_text() == big


def test_a_clipboard_manager_that_reads_everything(held, board):
    """Its reading isn't the paste's; and it was told that this is a password."""
    board.copy("own")
    seen = held.session.directory("manager")
    board.watch(f"cat >> {seen}/all; echo \"$CLIPBOARD_STATE\" >> {seen}/states")
    wait_until(lambda: (seen / "all").exists() and b"own" in (seen / "all").read_bytes(), "the manager's first look")
    field = held.desk.entry(4)
    field.process.send_signal(signal.SIGSTOP)
    try:
        running = held.client.call_later("type_text", text=TEXT, paste=True)
        wait_until(lambda: TEXT.encode() in (seen / "all").read_bytes(), "the manager's look at the text")
        time.sleep(1)
        assert SECRET_HINT in board.types(), "the text is still offered"
    finally:
        field.process.send_signal(signal.SIGCONT)
    facts = held.client.result(running).ok().data
    assert facts["read"] is True and facts["clipboard"] == "restored", facts
    wait_until(lambda: field.text() == TEXT, "the text in the field")
    assert board.paste() == b"own"


def test_a_clipboard_manager_that_takes_over(held, board):
    """Some copy each copy themselves, so that it outlives its owner: still the clipboard is put back."""
    board.copy("own")
    once = held.session.directory("takes-over") / "done"
    board.watch(f"grep -q pasted && [ ! -e {once} ] && touch {once} && wl-paste -n | wl-copy --foreground --type text/plain; true")
    field = held.desk.entry(3)
    facts = paste(held.client).ok().data
    assert once.exists(), "the manager did nothing: nothing was tested"
    assert facts["clipboard"] == "restored" and facts["read"] in (True, None), facts
    wait_until(lambda: field.text() == TEXT, "the text in the field")
    assert board.paste() == b"own"


def test_the_persons_copy_wins(held, board):
    board.copy("old")
    field = held.desk.entry(3)
    window_id(held.client, field.app_id)
    field.process.send_signal(signal.SIGSTOP)
    try:
        running = held.client.call_later("type_text", text=TEXT, paste=True)
        wait_until(lambda: SECRET_HINT in board.types(), "the offer")
        board.copy("the person's newer copy")
    finally:
        field.process.send_signal(signal.SIGCONT)
    facts = held.client.result(running).ok().data
    assert facts["clipboard"] == "replaced" and facts["observed"] == "interrupted", facts
    assert board.paste() == b"the person's newer copy"
    assert held.client.call("clipboard_read").ok().data["text"] == "the person's newer copy"


def test_what_is_put_back_is_as_old_as_it_was(desk, board):
    board.copy("before the lease")
    client = desk.server()
    client.acquire()
    desk.entry(3)
    assert paste(client).ok().data["clipboard"] == "restored"
    assert client.call("clipboard_read").ok().data == {"text": None, "reason": "before_lease"}
    board.copy("during the lease")
    assert paste(client).ok().data["clipboard"] == "restored"
    assert client.call("clipboard_read").ok().data == {"text": "during the lease"}


def test_our_own_text_is_a_password_to_readers(held, board):
    field = held.desk.entry(3)
    window_id(held.client, field.app_id)
    field.process.send_signal(signal.SIGSTOP)
    try:
        running = held.client.call_later("type_text", text=TEXT, paste=True)
        wait_until(lambda: SECRET_HINT in board.types(), "the offer")
        assert held.client.call("clipboard_read").ok().data == {"text": None, "reason": "secret"}
    finally:
        field.process.send_signal(signal.SIGCONT)
    held.client.result(running).ok()


# Refused


def test_a_password_stays_where_it_is(held, board):
    board.copy("secret", SECRET_HINT)
    field = held.desk.entry(3)
    result = paste(held.client)
    assert result.error == "clipboard_unsaved", result
    assert board.paste(SECRET_HINT) == b"secret" and field.text() == ""


def test_too_much_to_save(held, board):
    big = os.urandom((16 << 20) + 1)
    board.copy(big, "application/octet-stream")
    field = held.desk.entry(3)
    assert paste(held.client).error == "clipboard_unsaved"
    assert field.text() == "" and board.paste("application/octet-stream") == big
    fits = os.urandom(16 << 20)
    board.copy(fits, "application/octet-stream")
    assert paste(held.client).ok().data["clipboard"] == "restored"
    assert board.paste("application/octet-stream") == fits


def test_an_owner_that_hangs_can_not_be_saved(held, board):
    owner = board.copy("stuck")
    owner.send_signal(signal.SIGSTOP)
    field = held.desk.entry(3)
    begun = time.monotonic()
    assert paste(held.client).error == "clipboard_unsaved"
    assert time.monotonic() - begun < 4
    owner.send_signal(signal.SIGCONT)
    assert board.paste() == b"stuck" and field.text() == ""


def test_a_copy_while_the_old_one_is_being_saved(held, board):
    """The newer one is what is put back."""
    owner = board.copy("stuck")
    owner.send_signal(signal.SIGSTOP)
    field = held.desk.entry(3)
    running = held.client.call_later("type_text", text=TEXT, paste=True)
    wait_until(lambda: caretakers(held.desk), "the caretaker")
    board.copy("newer")
    facts = held.client.result(running).ok().data
    owner.send_signal(signal.SIGCONT)
    assert facts["read"] is True and facts["clipboard"] == "restored", facts
    wait_until(lambda: field.text() == TEXT, "the text in the field")
    assert board.paste() == b"newer"


def test_control_characters_are_refused(held, board):
    board.copy("own")
    result = paste(held.client, "good\x1b[201~bad")
    assert result.is_error and result.structured is None, result
    assert board.paste() == b"own"


# The end


@pytest.mark.parametrize("attempt", range(4))
def test_kill_during_a_paste(desk, board, attempt):
    """Within a second the clipboard is as it was before, and stays."""
    board.copy(PNG, "image/png")
    client = desk.server()
    client.acquire()
    field = desk.entry(3)
    window_id(client, field.app_id)
    field.process.send_signal(signal.SIGSTOP)
    try:
        client.call_later("type_text", text=TEXT, paste=True)
        wait_until(lambda: SECRET_HINT in board.types(), "the offer", every=0.001)
        time.sleep(attempt * 0.02)
        client.process.send_signal(signal.SIGKILL)
        died = time.monotonic()
        client.process.wait(5)
        wait_until(lambda: board.types() == ["image/png"], "the old clipboard", 1.0)
        assert time.monotonic() - died < 1.0
    finally:
        field.process.send_signal(signal.SIGCONT)
    assert board.paste("image/png") == PNG


def test_stop_during_a_paste(desk, board):
    board.copy("own")
    client = desk.server()
    client.acquire()
    field = desk.entry(3)
    window_id(client, field.app_id)
    field.process.send_signal(signal.SIGSTOP)
    try:
        running = client.call_later("type_text", text=TEXT, paste=True)
        wait_until(lambda: SECRET_HINT in board.types(), "the offer")
        desk.run("stop", environment=client.environment)
        wait_until(lambda: board.paste() == b"own", "the old clipboard", 1.5)
        assert client.result(running).error == "stopped"
    finally:
        field.process.send_signal(signal.SIGCONT)


def test_a_hung_server_during_a_paste(desk, board):
    board.copy("own")
    client = desk.server()
    client.acquire()
    field = desk.entry(3)
    window_id(client, field.app_id)
    field.process.send_signal(signal.SIGSTOP)
    try:
        client.call_later("type_text", text=TEXT, paste=True)
        wait_until(lambda: SECRET_HINT in board.types(), "the offer")
        client.process.send_signal(signal.SIGSTOP)
        desk.run("stop", environment=client.environment)
        wait_until(lambda: board.paste() == b"own", "the old clipboard", 2)
        assert client.process.wait(5) < 0
    finally:
        field.process.send_signal(signal.SIGCONT)


def test_a_caretaker_that_is_killed(held, board):
    """Then nobody can put the clipboard back: that is told, and the next paste works."""
    board.copy("own")
    field = held.desk.entry(3)
    window_id(held.client, field.app_id)
    field.process.send_signal(signal.SIGSTOP)
    try:
        running = held.client.call_later("type_text", text=TEXT, paste=True)
        wait_until(lambda: SECRET_HINT in board.types(), "the offer")
        time.sleep(0.3)  # the keys are pressed by then, and the stopped reader is awaited
        for caretaker in caretakers(held.desk):
            os.kill(caretaker, signal.SIGKILL)
        facts = held.client.result(running).ok().data
        assert facts["clipboard"] == "failed" and facts["read"] is None and facts["clipboard_note"], facts
    finally:
        field.process.send_signal(signal.SIGCONT)
    assert paste(held.client, "again").ok().data["clipboard"] == "cleared"
    wait_until(lambda: "again" in field.text(), "the second text")


def test_two_servers_one_after_the_other(desk, board):
    """The second one saves from the first one's caretaker."""
    board.copy(PNG, "image/png")
    field = desk.entry(4)
    for word in ("one,", "two,"):
        client = desk.server()
        client.acquire()
        facts = paste(client, word).ok().data
        assert facts["clipboard"] == "restored" and facts["read"] is True, facts
        client.close()
    wait_until(lambda: field.text() == "one,two,", "both texts")
    wait_until(lambda: len(caretakers(desk)) == 1, "one owner alone")
    assert board.types() == ["image/png"] and board.paste("image/png") == PNG


def test_the_clipboard_outlives_the_server(desk, board):
    board.copy("own")
    client = desk.server()
    client.acquire()
    desk.entry(3)
    assert paste(client).ok().data["clipboard"] == "restored"
    client.release()
    assert client.close() == 0
    board.end()
    assert board.paste() == b"own"
    board.copy("another")
    wait_until(lambda: not caretakers(desk), "the caretaker's end after the next copy", 3)


def test_nothing_of_it_is_written(desk, board):
    marks = ["CopiedMark77", "PastedMark77"]
    board.copy(marks[0])
    client = desk.server()
    client.acquire()
    board.copy(marks[0])
    desk.entry(3)
    assert client.call("clipboard_read").ok().data["text"] == marks[0]
    assert paste(client, marks[1]).ok().data["read"] is True
    lines = client.audit.read_text()
    assert "clipboard_read" in lines and '"paste":true' in lines
    for mark in marks:
        assert mark not in lines and mark not in client.log()
        found = subprocess.run(["grep", "-rl", mark, str(desk.session.runtime), str(client.audit.parent)], capture_output=True, text=True)
        assert found.stdout == "", found.stdout
