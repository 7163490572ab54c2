"""A chat: lines in, replies out, and what is said beside them.

Knows what a line is taken for; the commands themselves are slash.py's.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from speclocal.errors import SpeclocalError, UsageError
from speclocal.jobs.chat import Chat
from speclocal.jobs.reply import Reply
from speclocal.terminal import slash, words
from speclocal.terminal.editor import Lines, open_lines, unechoed
from speclocal.terminal.opening import chosen, opened
from speclocal.terminal.options import ReplyOptions
from speclocal.terminal.render import View, reply_json
from speclocal.text.documents import Document


def chat(system: str, options: ReplyOptions, view: View) -> None:
    """Open the models, and talk until nothing more is said."""
    if options.raw:
        raise UsageError("a chat has turns, and `--raw` has none", "use `speclocal generate --raw`")
    settings, choice = options.settings(), chosen(options)
    lines = open_lines(slash.summaries(), slash.ARGUMENTS)
    with opened(choice, options, view) as session:
        talk = Talk(Chat(session, settings, system, options.ctx), lines, view, options)
        if lines.at_terminal:
            view.note(f"{session.target_name}, {session.context_size} tokens of context; /help lists the commands")
        talk.run()


class Talk:
    """What goes on between a person, or a pipe, and a chat."""

    def __init__(self, chat: Chat, lines: Lines, view: View, options: ReplyOptions) -> None:
        self.chat = chat
        self.lines = lines
        self.view = view
        self.reply: Reply | None = None  # the last one
        self.going_on = True
        self._options = options
        self._attached: list[Document] = []
        self._noted: set[str] = set()

    def run(self) -> None:
        """Take line by line, to the end of the lines or until somebody wants to leave."""
        leaving = False
        while self.going_on:
            try:
                self.take(self.lines.read())
                leaving = False
            except EOFError:
                return
            except KeyboardInterrupt:
                if not self.lines.at_terminal:
                    raise
                if leaving:
                    return
                leaving = True
                self.view.note("Ctrl-C again or Ctrl-D leaves the chat")

    def take(self, line: str) -> None:
        """Do what a line asks for. What goes wrong is said, and the chat lives."""
        try:
            if found := slash.find(line):
                command, argument = found
                command.run(self, argument)
            elif line.strip():
                files, self._attached = self._attached, []
                parts = [f"{file.name}:\n\n{file.text.strip()}" for file in files]
                self.ask("\n\n---\n\n".join([*parts, line]))
        except SpeclocalError as error:
            self.view.problem(error)

    def ask(self, question: str, *, again: bool = False) -> None:
        """Show the reply to a message. With `again` it takes the place of the last one."""
        chat, view = self.chat, self.view
        with chat.asking(question, again=again) as turn:
            self.reply = turn.reply
            self._note_news(turn.num_forgotten)
            live = partial(words.live_turn, mode=self.mode, context_size=chat.session.context_size)
            try:
                with unechoed():
                    view.stream(turn.reply, show_drafts=self._options.show_drafts, live=live)
            except KeyboardInterrupt:
                if not self.lines.at_terminal:
                    raise
        if self._options.json:
            view.result(reply_json(turn.reply, **self._about()))
        else:
            for note in words.end_of_turn(turn.reply):
                view.note(note)

    def attach(self, document: Document) -> None:
        """Send a file's text with the next message."""
        self._attached.append(document)

    def change(self, **settings: Any) -> None:
        """Change settings of the next reply. Raises UsageError where they cannot be so."""
        self.chat.settings = replace(self.chat.settings, **settings)

    @property
    def mode(self) -> str:
        """Who drafts, with these models."""
        return self.chat.session.mode_used(self.chat.settings)

    def _note_news(self, num_forgotten: int) -> None:
        """Say what is new about the session, and what the model forgot."""
        notes = [note for note in self.chat.session.notes if note not in self._noted]
        self._noted.update(notes)
        if num_forgotten:
            notes.append(words.forgotten(num_forgotten))
        for note in notes:
            self.view.note(note)

    def _about(self) -> dict[str, object]:
        session = self.chat.session
        return {
            "model": session.target_name,
            "draft": session.draft_name,
            "mode": self.mode,
            "seed": self.chat.settings.seed,
        }
