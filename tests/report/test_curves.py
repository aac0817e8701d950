"""A pool's curves: who is drawn, within which bounds, under which title."""

from pets.report.canvas import save
from pets.report.curves import draw_curves

PNG = b"\x89PNG\r\n\x1a\n"


def test_streams_have_a_row_of_their_own(found, tmp_path):
    figure = draw_curves(found)
    assert len(figure.axes) == 4
    labels = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in figure.axes[::2]]
    assert labels == [["uniform", "okg:prior=1", "asc", "dsc"], ["online_grid (stream)", "uniform (stream)"]]
    assert figure.get_suptitle().startswith(
        "toy: target whole (the vote of all traces drawn)\n14 questions x 16 traces"
    )
    assert save(figure, tmp_path / "toy.png").read_bytes().startswith(PNG)


def test_accuracy_is_bounded_by_pass_at_1_and_the_full_vote(found):
    axes = draw_curves(found).axes[1]
    said = {text.get_text() for text in axes.texts}
    assert said == {f"pass@1 {found.pass_at_1:.3f}", f"vote of the full pool {found.vote_accuracy:.3f}"}
    low, high = axes.get_ylim()
    assert low < found.pass_at_1 < high and low < found.vote_accuracy < high


def test_without_gold_there_is_no_accuracy(without_gold):
    figure = draw_curves(without_gold)
    assert len(figure.axes) == 1 and "target disjoint" in figure.get_suptitle()
    (ceiling,) = figure.axes[0].texts
    assert ceiling.get_text().endswith(f"{without_gold.ceiling.mean():.3f}")
