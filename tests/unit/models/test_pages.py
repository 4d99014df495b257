"""What is taken from a page of documentation, and what is left out."""

from models.corpus import sections

PAGE = """
<html><head><title>not this</title></head><body><nav>nor this</nav>
<div class="body" role="main"><section>
<h1>Shelves<a class="headerlink" href="#x">&#182;</a></h1>
<p>A shelf keeps  things;
even <em>large</em> ones &amp; old ones.<br></p>
<div class="highlight"><pre>&gt;&gt;&gt; shelf['a'] = 1</pre></div>
<dl class="py function">
<dt class="sig sig-object py"><span>shelve.</span><span>open</span>(<em>name</em>)<a class="headerlink">&#182;</a></dt>
<dd><p>Opens a shelf.</p>
<dl class="simple"><dt>name</dt><dd><p>Where it is.</p></dd></dl>
<dl class="py method"><dt class="sig sig-object py">close()</dt><dd><p>Closes it.</p></dd></dl>
</dd></dl>
<p>That is all.</p>
<table><tr><td>cells are no prose</td></tr></table>
<h2>Empty</h2>
</section></div>
<div class="footer"><p>not the footer</p></div></body></html>
"""


def found() -> list[tuple[str, list[str]]]:
    return [(section.title, section.paragraphs) for section in sections(PAGE)]


def test_headings_and_signatures_begin_sections() -> None:
    assert found()[:3] == [
        ("Shelves", ["A shelf keeps things; even large ones & old ones."]),
        ("shelve.open(name)", ["Opens a shelf.", "name", "Where it is."]),
        ("close()", ["Closes it."]),
    ]


def test_text_after_an_entry_belongs_to_the_heading_above() -> None:
    assert found()[3:] == [("Shelves", ["That is all."])]


def test_a_page_without_a_main_part_has_no_sections() -> None:
    assert sections("<html><body><h1>Title</h1><p>Text</p></body></html>") == []


def test_unclosed_element_loses_no_text() -> None:
    assert [s.text for s in sections('<div role="main"><h1>T</h1><ul><li>one<li>two</ul><p>three')] == ["one\ntwo\nthree"]
