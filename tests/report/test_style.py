"""What every figure shares: a policy's colour, an axis of traces, files in three formats."""

import re
from itertools import combinations

import numpy as np
import pytest

from pets.report.style import FIXED, PALETTE, by_label, colour_of, drawn_svg, line_styles, save, titled, trace_axis

CHART = {"data": {"values": [{"traces": 1, "y": 2}]}, "mark": "point", "encoding": {"x": trace_axis(64)}}


def test_no_two_policies_look_alike():
    styles = line_styles(FIXED)
    assert len(set(styles.values())) == len(FIXED) == 13
    assert {style.colour for style in styles.values()} <= set(PALETTE)


def test_a_policy_looks_the_same_in_every_company():
    alone, many = line_styles(["okg"]), line_styles(["asc", "mine", "okg", "esc", "uniform"])
    assert alone["okg"] == many["okg"] and colour_of("okg") == many["okg"].colour != colour_of("uniform")


def test_options_of_a_policy_share_its_colour_and_differ_in_their_dashes():
    styles = line_styles(["okg", "okg:prior=1", "okg:zone=0.1", "okg:waves=4"])
    assert {style.colour for style in styles.values()} == {colour_of("okg")}
    assert len({style.dashes for style in styles.values()}) == 4


def linear(colour):
    shares = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    return np.array([share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares])


def lab(rgb):
    """CIE L*a*b* of linear sRGB."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ rgb
    f = [value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in xyz / [0.9505, 1.0, 1.089]]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


SEEN_BY = {  # Machado, Oliveira and Fernandes 2009, severity 1
    "everybody": np.eye(3),
    "protanopes": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopes": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
}


@pytest.mark.parametrize("matrix", SEEN_BY.values(), ids=SEEN_BY)
def test_colour_blind_readers_tell_the_colours_apart(matrix):
    colours = [lab(np.clip(np.array(matrix) @ linear(colour), 0, 1)) for colour in PALETTE]
    nearest = min(np.linalg.norm(a - b) for a, b in combinations(colours, 2))
    assert nearest > 10  # a difference of 2.3 can just be seen


def test_what_a_legend_adds_to_a_name_changes_no_colour():
    for label in ("okg", "okg:prior=1", "okg, zone 0.1 (0.003)", "okg (stream)", "okg:zone=0.1, zone 0.1"):
        assert colour_of(label) == colour_of("okg"), label


def test_points_differ_in_shape_where_lines_differ_in_dashes():
    styles = line_styles(["asc", "its_adaptive", "okg"])
    look = by_label(styles, points=["asc", "its_adaptive"], lines=["okg"])
    assert look["shape"]["scale"]["range"] == ["circle", "diamond", "stroke"]
    assert look["strokeDash"]["scale"]["range"] == [[1, 0]] * 3  # points are not dashed


def test_a_single_line_needs_no_legend():
    assert by_label(line_styles(["okg"]))["color"]["legend"] is None
    assert by_label(line_styles(["okg", "asc"]))["color"]["scale"]["domain"] == ["okg", "asc"]


def test_an_axis_of_traces_doubles_from_tick_to_tick():
    assert trace_axis(70)["axis"]["values"] == [1, 2, 4, 8, 16, 32, 64]


def test_a_chart_is_saved_as_png_svg_and_pdf(tmp_path):
    paths = save(titled(CHART, "A title"), tmp_path / "toy.model.curves")
    assert [path.name for path in paths] == ["toy.model.curves.png", "toy.model.curves.svg", "toy.model.curves.pdf"]
    assert [path.read_bytes()[:4] for path in paths] == [b"\x89PNG", b"<svg", b"%PDF"]
    assert "A title" in paths[1].read_text()


def test_a_page_s_drawing_takes_the_colours_of_the_page():
    drawing = drawn_svg(CHART)
    assert "var(--faint)" in drawing and not re.search(r'fill="(white|#fff)', drawing)
