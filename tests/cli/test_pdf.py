"""The text of a PDF: read elsewhere, within bounds, or a clear no."""

from __future__ import annotations

import io
import re

import pypdf
import pytest

from sightline._distribution import install
from sightline.cli import pdf
from sightline.errors import InvalidInput, MissingExtra


def document(*pages: str) -> bytes:
    """A PDF with these lines, one on each page."""
    count = len(pages)
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(count))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, line in enumerate(pages):
        drawn = f"BT /F1 12 Tf 72 720 Td ({line}) Tj ET" if line else ""
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream")
    data, at = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        at.append(len(data))
        data += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in at)
    return (
        f"{data}xref\n0 {len(at) + 1}\n0000000000 65535 f \n{table}"
        f"trailer\n<< /Size {len(at) + 1} /Root 1 0 R >>\nstartxref\n{len(data)}\n%%EOF\n"
    ).encode()


def test_the_text_of_every_page_is_read() -> None:
    assert pdf.pdf_text(document("Ducks swim.", "", "Geese fly.")) == (
        "[page 1]\nDucks swim.\n\n[page 3]\nGeese fly.\n\n"
    )


def encrypted() -> bytes:
    """A PDF that needs a password."""
    writer, out = pypdf.PdfWriter(io.BytesIO(document("Ducks."))), io.BytesIO()
    writer.encrypt("secret", algorithm="RC4-128")
    writer.write(out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (document(""), "there is no text in it"),
        (b"%PDF-1.4\nnonsense", "not a PDF whose text"),
        (encrypted(), "^it is encrypted: its text can be read from a copy that is not$"),
    ],
)
def test_one_without_text_and_those_that_cannot_be_read_are_told(data: bytes, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        pdf.pdf_text(data)


def test_without_its_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sightline.agent.models.vendors.find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=re.escape(install("pdf"))):
        pdf.pdf_text(document("x"))
