// Tables and figures that scroll sideways can be reached by keyboard.
function makeReachable() {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .figure")) box.tabIndex = 0
}
document$.subscribe(() => setTimeout(makeReachable))
