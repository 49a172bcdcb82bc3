"""The pages of the commands are what the parsers say. Evidence: the parser that prints `--help`."""

from tools.make_command_docs import FOLDER, pages


def test_the_pages_of_commands_are_up_to_date() -> None:
    made = pages()
    assert set(FOLDER.glob("*.md")) == set(made), "run: python tools/make_command_docs.py"
    stale = [path.name for path, text in made.items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "run: python tools/make_command_docs.py"
