"""The page with every command's help is what the program prints."""

import sys

import pytest

from tools.make_command_docs import PAGE, page


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the page was made with the argparse of Python 3.11")
def test_the_page_of_commands_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run: python tools/make_command_docs.py"
