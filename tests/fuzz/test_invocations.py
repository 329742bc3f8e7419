"""Every bad value of every option, and a few pairs of them."""

import invocations


def test_malformed_invocations_end_with_one_line(tmp_path):
    outcomes = invocations.explore(300, seed=0, folder=tmp_path / "files")
    assert len(outcomes) == 300
    wrong = [o for o in outcomes if o.wrong]
    assert not wrong, "\n".join(f"{' '.join(o.arguments[-4:])}: {o.wrong}: {o.message}" for o in wrong)
