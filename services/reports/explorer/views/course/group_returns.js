"use strict";
// How well each group did over the run.
const MOST_LINES = 7; // each has a colour of its own

// The groups that judged most samples; where they are many, those of one role or another first part of the key.
function groupReturnsFigure(context) {
  const { run, choice, choose } = context;
  const known = (run.course.group_returns ?? []).filter(({ mean }) => mean.some(Number.isFinite)).map((group) => ({
    name: groupName(group), values: group.mean, first: keyText(group.key[0] ?? "all"),
  }));
  if (known.length === 0) return null;
  const firsts = [...new Set(known.map(({ first }) => first))].sort();
  const isDivided = known.length > MOST_LINES && firsts.length > 1;
  const first = isDivided ? shownFirst(firsts, known, choice) : null;
  const own = isDivided ? known.filter((group) => group.first === first) : known;
  const series = own.slice(0, MOST_LINES).map(({ name, values }, place) => ({
    name, values: smoothed(values), color: CATEGORY_COLORS[place % CATEGORY_COLORS.length],
  }));
  const figure = courseFigure(context, "Return by group", "Mean return of a group's members in each update, smoothed over " +
    "a tenth of the run; the groups that judged most samples.", series, "return");
  if (isDivided) {
    const options = firsts.map((value) => ({ value, label: value }));
    figure.querySelector("p").after(dropdown("Groups of", options, first, (next) => choose({ groups_of: next })));
  }
  return figure;
}

// The chosen part, else that of the chosen group, else the first.
function shownFirst(firsts, known, choice) {
  if (firsts.includes(choice.groups_of)) return choice.groups_of;
  return known.find(({ name }) => name === choice.group)?.first ?? firsts[0];
}
