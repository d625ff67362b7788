"""`MailServer` is a small SMTP server on loopback that keeps what it is sent."""

from __future__ import annotations

import base64
import email
import email.policy
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage

__all__ = ["MailServer", "running_mail_server"]


class MailServer:
    """What was sent, and how the server answers.

    Attributes
    ----------
    mails
        Sender, recipients and content of each mail.
    logins
        User and password of each login.
    answers
        Other answers than usual, by command: `{"RCPT": "550 no such user"}`.
    """

    def __init__(self) -> None:
        self.mails: list[tuple[str, list[str], EmailMessage]] = []
        self.logins: list[tuple[str, str]] = []
        self.answers: dict[str, str] = {}
        server = self

        class Handler(socketserver.StreamRequestHandler):
            def answer(self, text: str) -> None:
                self.wfile.write(f"{text}\r\n".encode("ascii"))

            def handle(self) -> None:
                sender, recipients = "", list[str]()
                self.answer("220 loopback")
                while line := self.rfile.readline().decode("utf-8").strip():
                    command = line[:4].upper()
                    if command in server.answers:
                        self.answer(server.answers[command])
                    elif command == "EHLO":
                        self.answer("250-loopback")
                        self.answer("250-AUTH PLAIN")
                        self.answer("250 8BITMIME")
                    elif command == "AUTH":
                        _, user, password = base64.b64decode(line.split()[-1]).decode().split("\0")
                        server.logins.append((user, password))
                        self.answer("235 welcome")
                    elif command == "MAIL":
                        sender = line.partition("<")[2].partition(">")[0]
                        self.answer("250 OK")
                    elif command == "RCPT":
                        recipients.append(line.partition("<")[2].partition(">")[0])
                        self.answer("250 OK")
                    elif command == "DATA":
                        self.answer("354 go on")
                        content = b""
                        while (part := self.rfile.readline()) != b".\r\n":
                            content += part.removeprefix(b".") if part.startswith(b"..") else part
                        mail = email.message_from_bytes(content, policy=email.policy.default)
                        assert isinstance(mail, EmailMessage)
                        server.mails.append((sender, recipients, mail))
                        self.answer("250 OK")
                    else:
                        self.answer("221 bye" if command == "QUIT" else "250 OK")

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Handler)

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.server.server_address[1]}"


@contextmanager
def running_mail_server() -> Iterator[MailServer]:
    """Run a server."""
    running = MailServer()
    thread = threading.Thread(target=running.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield running
    running.server.shutdown()
    running.server.server_close()
    thread.join()
