"""Dots that move into their groups, and boundaries that are moved by keys, mouse and touch."""

from __future__ import annotations

import math

import pytest
from playwright.sync_api import expect

from tests.system.reports.explorer.charts.samples import (
    COLORS,
    PHONE,
    Show,
    box_of,
    calls,
    dot_places,
    dots,
    points,
    rest,
)

pytestmark = pytest.mark.system


def test_dots_move_into_their_groups(show: Show) -> None:
    with show([dots(200)]) as visited:
        before = dot_places(visited)
        visited.evaluate("built[0].update({ layout: 'groups' })")
        after = rest(visited)
        assert sum(abs(a[0] - b[0]) > 5 for a, b in zip(before, after, strict=True)) > 150
        lanes = [box_of(lane) for lane in visited.locator(".chart-lane").all()]
        left = box_of(visited.locator(".chart-svg"))["x"]
        for point, (x, _) in zip(points(200), after, strict=True):
            lane = lanes[("early", "middle", "late").index(point["group"])]
            assert lane["x"] <= left + x <= lane["x"] + lane["width"]
        gaps = [math.dist(a, b) for place, a in enumerate(after) for b in after[:place]]
        assert min(gaps) >= 8, "no dot covers another"
        assert visited.locator(".chart-groups .chart-name").all_text_contents() == ["early", "middle", "late"]
        assert visited.locator(".chart-group-mean").count() == 3
        visited.evaluate("built[0].update({ layout: 'scatter' })")
        assert rest(visited) == before


def test_dots_move_at_once_where_motion_is_reduced(show: Show) -> None:
    with show([dots(50)], reduced_motion="reduce") as visited:
        before = dot_places(visited)
        visited.evaluate("built[0].update({ layout: 'groups' })")
        moved = dot_places(visited)
        assert moved != before
        assert rest(visited) == moved
        animations = visited.evaluate("document.getAnimations().length")
        assert animations == 0


def test_dots_glide_where_motion_is_not_reduced(show: Show) -> None:
    with show([dots(50)]) as visited:
        before = dot_places(visited)
        # The frames' clock, so that the test does not depend on the machine's speed.
        visited.evaluate("""() => {
          window.frames_asked = [];
          window.requestAnimationFrame = (step) => frames_asked.push(step);
          built[0].update({ layout: "groups" });
          frames_asked.shift()(performance.now() + 300);
        }""")
        half = dot_places(visited)
        visited.evaluate("frames_asked.shift()(performance.now() + 5000)")
        after = dot_places(visited)
        for a, b, c in zip(before, half, after, strict=True):
            assert math.dist(a, b) + math.dist(b, c) == pytest.approx(math.dist(a, c), abs=0.1), "on the way"
        assert half not in (before, after)


def test_many_equal_dots_stay_inside_their_column(show: Show) -> None:
    same = [{**point, "y": 1.0, "group": "early"} for point in points(2_000)]
    with show([dots(points=same, layout="groups")], PHONE) as visited:
        xs = [x for x, _ in dot_places(visited)]
        lane, left = box_of(visited.locator(".chart-lane").first), box_of(visited.locator(".chart-svg"))["x"]
        assert left + min(xs) >= lane["x"] - 1
        assert left + max(xs) <= lane["x"] + lane["width"] + 1
        assert len(set(xs)) > 50, "as far apart as there is room"


def test_dots_come_go_and_change(show: Show) -> None:
    with show([dots(20, selected="dot 3")]) as visited:
        assert visited.locator("[role=option][aria-selected=true]").get_attribute("aria-label") == "Episode 3"
        visited.locator("[role=option][tabindex='0']").focus()
        changed = [{**points(21)[place], "color": COLORS[2], "y": None if place == 20 else 1} for place in range(5, 21)]
        visited.evaluate("changed => built[0].update({ points: changed, selected: 'dot 7' })", changed)
        rest(visited)
        assert visited.locator(".chart-dot").count() == 16
        assert visited.locator(f".chart-dot[fill='{COLORS[2]}']:visible").count() == 15
        assert visited.locator(".chart-missing").inner_text().startswith("1 of 16 dots are not shown")
        assert visited.locator("[role=option]:focus").count() == 1, "the focus is not lost with its dot"
        visited.evaluate("built[0].update({ points: [], groups: [], layout: 'groups' })")
        assert visited.locator(".chart-dot").count() == 0
        expect(visited.locator(".chart-drawing")).to_contain_text("No values")


def test_dots_are_reached_by_keys_and_pointer(show: Show) -> None:
    cross: dict[str, tuple[float, float]] = {
        "middle": (0, 0),
        "left": (-5, 1),
        "right": (5, 1),
        "up": (1, 5),
        "down": (1, -5),
        "twin": (0, 0),
    }
    cross["aside"] = (-4.5, 4)  # nearest to the left one, but rather above it than to its right
    made = [{"id": name, "label": f"The {name}", "x": x, "y": y, "color": COLORS[0]} for name, (x, y) in cross.items()]
    with show([dots(points=made, boundaries=[])]) as visited:
        focused = visited.locator("[role=option]:focus")
        visited.locator("[role=option][tabindex='0']").focus()
        assert focused.get_attribute("aria-label") == "The left"
        expect(visited.locator(".chart-tooltip")).to_have_text("The left")
        walk = ["ArrowRight", "ArrowDown", "ArrowDown", "ArrowUp", "ArrowLeft", "End"]
        seen = []
        for key in walk:
            visited.keyboard.press(key)
            seen.append(str(focused.get_attribute("aria-label")).removeprefix("The "))
        assert seen == ["middle", "twin", "down", "middle", "aside", "right"]
        visited.keyboard.press("Enter")
        assert visited.locator("[role=option][tabindex='0']").count() == 1
        box = box_of(visited.locator("[role=option]").nth(3))
        visited.mouse.click(box["x"] + 8, box["y"] + 12)  # beside the dot
        assert calls(visited) == [["right"], ["up"]]
        expect(visited.locator(".chart-tooltip")).to_have_text("The up")


def test_boundaries_are_moved_by_keys(show: Show) -> None:
    with show([dots()]) as visited:
        handles = visited.get_by_role("slider")
        first, second = handles.nth(0), handles.nth(1)
        assert first.get_attribute("aria-label") == "Boundary 1 of 2 on own centres"
        low, high = (float(first.get_attribute(f"aria-value{end}") or "") for end in ("min", "max"))
        first.focus()
        wanted = 12.0
        for key, part in (
            ("ArrowRight", 0.01),
            ("ArrowLeft", -0.01),
            ("PageUp", 0.1),
            ("PageDown", -0.1),
            ("ArrowUp", 0.01),
        ):
            visited.keyboard.press(key)
            wanted += part * (high - low)
            index, value, finished = calls(visited)[-1]
            assert (index, finished) == (0, True)
            assert value == pytest.approx(wanted)
            assert float(first.get_attribute("aria-valuenow") or "") == pytest.approx(wanted)
        visited.keyboard.press("End")
        assert calls(visited)[-1] == [0, 24, True], "never beyond its neighbour"
        second.focus()
        visited.keyboard.press("End")
        assert calls(visited)[-1][1] == pytest.approx(high)
        visited.evaluate("built[0].update({})")
        assert float(second.get_attribute("aria-valuenow") or "") != 24, "the chart keeps what was moved"
        visited.evaluate("built[0].update({ layout: 'groups' })")
        assert handles.count() == 0


def test_boundaries_are_dragged_by_mouse(show: Show) -> None:
    with show([dots()]) as visited:
        handle = visited.get_by_role("slider").first
        box = box_of(handle)
        x, y = box["x"] + box["width"] / 2 - 4, box["y"] + box["height"] / 2
        visited.mouse.click(x, y)
        assert calls(visited) == [], "nothing was moved"
        visited.mouse.down()
        # Many movements within one frame: the chart tells its caller of one.
        visited.evaluate(
            """([x, y]) => new Promise((done) => requestAnimationFrame(() => {
              const handle = document.querySelector("[role=slider]");
              const common = { pointerId: 1, bubbles: true, clientY: y };
              for (let step = 1; step <= 40; step += 1) {
                handle.dispatchEvent(new PointerEvent("pointermove", { ...common, clientX: x + step }));
              }
              requestAnimationFrame(() => requestAnimationFrame(done));
            }))""",
            [x, y],
        )
        drags = calls(visited)
        assert len(drags) == 1
        assert [drags[0][0], drags[0][2]] == [0, False]
        visited.mouse.move(x + 30, y)
        visited.evaluate("document.querySelector('main').append(document.querySelector('figure'))")  # drawn again
        visited.mouse.move(x + 60, y + 30)
        visited.mouse.up()
        *moves, (index, value, finished) = calls(visited)
        assert all(move[2] is False for move in moves)
        assert (index, finished) == (0, True)
        assert box_of(handle)["x"] == pytest.approx(box["x"] + 60, abs=1)
        assert value > 12
        visited.mouse.move(x + 200, y)
        assert len(calls(visited)) == len(moves) + 1, "released"


def test_boundaries_are_dragged_by_touch(show: Show) -> None:
    with show([dots()], PHONE, has_touch=True, is_mobile=True) as visited:
        handle = visited.get_by_role("slider").nth(1)
        handle.scroll_into_view_if_needed()
        box = box_of(handle)
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        session = visited.context.new_cdp_session(visited)
        touches = [("touchStart", x), *(("touchMove", x - step) for step in range(5, 45, 5))]
        for kind, at in touches:
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": at, "y": y}]})
        session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        visited.wait_for_function("calls.at(-1)?.at(-1) === true")
        index, value, _ = calls(visited)[-1]
        assert index == 1
        assert value < 24
        assert box_of(handle)["x"] < box["x"] - 25
