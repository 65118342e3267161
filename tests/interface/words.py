"""What a page says, for tests of its words."""


def said(readouts):
    """Headline and cards as HTML, with plain spaces where no line may end."""
    return readouts.object.replace("\N{NO-BREAK SPACE}", " ")
