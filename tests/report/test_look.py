"""What every figure shares: a policy's colour, an axis of traces, files in three formats."""

import re

from pets.report.look import FIXED, PALETTE, by_label, colour_of, drawn_svg, line_styles, save, titled, trace_axis

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
