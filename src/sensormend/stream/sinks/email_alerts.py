"""`EmailAlerts` sends each alert as an e-mail."""

from __future__ import annotations

import smtplib
import ssl
from contextlib import suppress
from email.message import EmailMessage
from email.utils import formatdate

from sensormend.errors import RefusedError, SensormendError
from sensormend.readings import SECOND
from sensormend.stream.addresses import is_loopback, mail_server, plain
from sensormend.stream.deliveries import Alert
from sensormend.stream.sinks.alert_sinks import AlertSink
from sensormend.stream.sinks.messages import NO_DETAILS, AlertDetails, alert_message, valid_text

__all__ = ["EmailAlerts"]

SERVER_TIMEOUT = 20.0
"""Seconds to wait for each answer of the server."""


class EmailAlerts(AlertSink):
    """Sends each alert to the recipients in its address, `smtp://user:password@host:port/?to=me@example.org`.

    `smtps://` is encrypted from the start; with `smtp://` the connection is encrypted if the server offers it, and a
    password is sent only then, or to this machine. Several recipients have commas between; `&from=` is the sender. A
    server that refuses with a 5xx code refuses the alert; after any other error it is sent again later.
    """

    def __init__(self, address: str, *, details: AlertDetails = NO_DETAILS) -> None:
        super().__init__(details)
        self._server, self._shown = mail_server(address), plain(address)

    def send(self, alert: Alert) -> None:
        """Send the alert."""
        try:
            self._send(self._mail(alert))
        except (smtplib.SMTPException, OSError, ValueError) as error:
            codes = _codes(error)
            reason = " ".join(str(error).split()) or type(error).__name__
            kind = RefusedError if codes and all(code >= 500 for code in codes) else SensormendError
            raise kind(f"{self._shown}: {reason}") from None

    def _mail(self, alert: Alert) -> EmailMessage:
        message, server = alert_message(alert, self.details), self._server
        mail = EmailMessage()
        # A name may contain a line break, which would begin another header.
        mail["Subject"] = valid_text(" ".join(str(message["title"]).split()))
        mail["From"], mail["To"] = server.sender, ", ".join(server.recipients)
        mail["Date"] = formatdate(alert.at / SECOND)
        # The same in a repetition, which the receiver may drop.
        mail["Message-ID"] = f"<{alert.id or 'alert'}.{alert.at}.{alert.state}@sensormend>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(valid_text(f"{message['text']}\n"))
        return mail

    def _send(self, mail: EmailMessage) -> None:
        server = self._server
        client: smtplib.SMTP
        if server.encrypted:
            context = ssl.create_default_context()
            client = smtplib.SMTP_SSL(server.host, server.port, timeout=SERVER_TIMEOUT, context=context)
        else:
            client = smtplib.SMTP(server.host, server.port, timeout=SERVER_TIMEOUT)
        try:
            client.ehlo()
            secure = server.encrypted or is_loopback(server.host)
            if not server.encrypted and client.has_extn("starttls"):
                client.starttls(context=ssl.create_default_context())
                client.ehlo()
                secure = True
            if server.user is not None:
                if not secure:
                    raise SensormendError(
                        f"{self._shown} offers no encryption, and the password is not sent without it: use smtps://"
                    )
                client.login(server.user, server.password or "")
            client.send_message(mail)
        finally:
            # The alert is sent when `send_message` returns, whatever the server answers to QUIT.
            with suppress(smtplib.SMTPException, OSError):
                client.quit()


def _codes(error: Exception) -> list[int]:
    """Return the codes with which the server refused; empty where it did not answer with one."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return [code for code, _ in error.recipients.values()]
    # A wrong password may be corrected at the server; the alerts wait for that.
    if isinstance(error, smtplib.SMTPAuthenticationError) or not isinstance(error, smtplib.SMTPResponseException):
        return []
    return [error.smtp_code]
