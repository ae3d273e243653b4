package term

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/wording"
)

// lines draws the tree: at most the height of the screen, each line shorter than its width.
func (t *Tree) lines(width, height int) []drawn {
	all := t.order
	limit := max(height-2, 3)
	if t.status != nil {
		limit = max(limit-1, 2)
	}
	if height > 0 && len(all) > limit {
		all = t.merged()
	}
	nodes := all
	if height > 0 && len(all) > limit {
		nodes = busiest(all, limit-1)
	}
	children := map[string][]*node{}
	shown := map[string]bool{}
	for _, n := range nodes {
		shown[n.last.ConversationID] = true
	}
	for _, n := range nodes {
		parent := n.last.ParentID
		if !shown[parent] || parent == n.last.ConversationID {
			parent = ""
		}
		children[parent] = append(children[parent], n)
	}
	var out []drawn
	seen := map[*node]bool{}
	var walk func(parent, indent string)
	walk = func(parent, indent string) {
		kids := children[parent]
		for i, n := range kids {
			if seen[n] {
				continue
			}
			seen[n] = true
			branch, deeper := Branch(i == len(kids)-1, t.io.UTF8)
			text := indent + branch
			if width > 0 {
				text = Cut(text+t.text(n, max(width-1-Width(text), 1)), width-1, t.io.UTF8)
			} else {
				text += t.text(n, 0)
			}
			out = append(out, drawn{t.paint(n, text), Width(text)})
			if id := n.last.ConversationID; id != "" {
				walk(id, indent+deeper)
			}
		}
	}
	walk("", "")
	if text := rest(all, nodes); text != "" {
		if width > 0 {
			text = Cut(text, width-1, t.io.UTF8)
		}
		out = append(out, drawn{text, Width(text)})
	}
	if t.status != nil {
		text := Line(t.status())
		if width > 0 {
			text = Cut(text, width-1, t.io.UTF8)
		}
		out = append(out, drawn{text, Width(text)})
	}
	return out
}

// merged returns the sub-agents with one node for all equal refusals of a caller, which differ only
// in their task.
func (t *Tree) merged() []*node {
	first := map[stream.Delegation]*node{}
	var out []*node
	for _, n := range t.order {
		if !n.denied() {
			out = append(out, n)
			continue
		}
		key := stream.Delegation{ParentID: n.last.ParentID, Profile: n.last.Profile, Status: n.last.Status, Reason: n.last.Reason}
		m := first[key]
		if m == nil {
			m = &node{last: n.last, at: n.at, from: n.last.Title}
			first[key], out = m, append(out, m)
		} else if n.last.Title != "" {
			m.last.Title = m.from + wording.Either(t.io.UTF8, " … ", " ... ") + n.last.Title
		}
		m.same++
	}
	return out
}

// rest returns a line that counts those of all sub-agents that are not shown, by what they do.
func rest(all, shown []*node) string {
	counts, sum := map[string]int{}, 0
	var names []string
	for _, n := range all {
		if slices.Contains(shown, n) {
			continue
		}
		name := n.last.Phase
		switch name {
		case stream.Ended:
			name = orDash(n.last.Status)
		case stream.Started:
			name = stream.Running
		}
		if counts[name] == 0 {
			names = append(names, name)
		}
		counts[name] += max(n.same, 1)
		sum += max(n.same, 1)
	}
	if len(names) == 0 {
		return ""
	}
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%d %s", counts[name], name)
	}
	return Line(fmt.Sprintf("(+%d more: %s)", sum, strings.Join(parts, ", ")))
}

// busiest returns at most n of all nodes in their order. It prefers those that run, then those that
// failed, those that wait, and the latest of those that ended well. Each comes with the sub-agents
// above it, as far as there is room for all of them.
func busiest(all []*node, n int) []*node {
	ranked := slices.Clone(all)
	slices.Reverse(ranked)
	slices.SortStableFunc(ranked, func(a, b *node) int { return rank(a) - rank(b) })
	above := map[string]*node{}
	for _, x := range all {
		if x.last.ConversationID != "" { // a refusal has none, and is above nobody
			above[x.last.ConversationID] = x
		}
	}
	keep := map[*node]bool{}
	for _, x := range ranked {
		way := map[*node]bool{}
		for at := x; at != nil && !keep[at] && !way[at]; at = above[at.last.ParentID] {
			way[at] = true
		}
		if len(keep)+len(way) <= n {
			maps.Copy(keep, way)
		}
	}
	var out []*node
	for _, x := range all {
		if keep[x] {
			out = append(out, x)
		}
	}
	return out
}

func rank(n *node) int {
	switch d := n.last; {
	case d.Phase == stream.Queued:
		return 2
	case d.Phase != stream.Ended:
		return 0
	case d.Status != "ok":
		return 1
	}
	return 3
}

// Branch returns the drawing in front of a child, and the indent of what is below it.
func Branch(last, utf8 bool) (branch, deeper string) {
	switch {
	case last && utf8:
		return "└─ ", "   "
	case utf8:
		return "├─ ", "│  "
	case last:
		return "`- ", "   "
	}
	return "|- ", "|  "
}

// text returns a node's line on a terminal: profile, state, current tool, tokens, elapsed, title.
// The title is what differs from row to row. So it gets a third of the columns (0 = unlimited), and
// the others are cut.
func (t *Tree) text(n *node, room int) string {
	d := n.last
	tokens := ""
	if d.Tokens > 0 {
		tokens = Count(d.Tokens) + " tokens"
	}
	head := func(profile, state, tokens, elapsed string) string {
		if n.same > 1 {
			profile = fmt.Sprintf("%d %s %s", n.same, wording.Either(t.io.UTF8, "×", "x"), profile)
		}
		parts := []string{mark(d, t.io.UTF8) + " " + profile}
		for _, part := range []string{state, tokens, elapsed} {
			if part != "" {
				parts = append(parts, part)
			}
		}
		return strings.Join(parts, "  ")
	}
	profile, state, elapsed := cmp.Or(d.Profile, unnamed), n.state(), n.elapsed(t.now())
	if state == stream.Started {
		state = stream.Running // it is, and says more only when it calls a tool
	}
	short := profile[strings.LastIndex(profile, "/")+1:]
	word, _, _ := strings.Cut(state, ":")
	word, _, _ = strings.Cut(word, " ")
	where := profile + d.On()
	text := head(where, state, tokens, elapsed)
	if d.Title == "" {
		return text
	}
	least := min(Width(d.Title), room/3) + 2
	brief := head(short, word, "", "")
	reason := brief
	if strings.Contains(state, ":") { // the beginning of a reason says more than none
		reason = Cut(head(short, state, "", ""), max(room-least, Width(brief)+leastReason), t.io.UTF8)
	}
	for _, shorter := range []string{
		head(where, state, "", elapsed), head(where, state, "", ""), head(profile, state, "", ""), head(short, state, "", ""), reason, brief, head(short, "", "", ""),
	} {
		if room <= 0 || Width(text)+least <= room {
			break
		}
		text = shorter
	}
	if room > 0 {
		text = Cut(text, max(room-least, 1), t.io.UTF8)
	}
	return text + "  " + d.Title
}

// leastReason is how many columns of a reason are worth their place, with the colon before them.
const leastReason = 12

// unnamed stands for the profile of a call that names none.
const unnamed = "a delegation"

// plain returns a node's line for a log.
func (n *node) plain() string {
	d := n.last
	if n.denied() {
		return fmt.Sprintf("%s: %s", cmp.Or(d.Profile, unnamed), n.state())
	}
	text := fmt.Sprintf("%s %s%s: %s", cmp.Or(d.Profile, unnamed), orDash(d.ConversationID), d.On(), n.state())
	if d.Phase == stream.Ended {
		text += fmt.Sprintf(", %s tokens, %s", Count(d.Tokens), Elapsed(time.Duration(d.ElapsedMS)*time.Millisecond))
	}
	return text
}

// denied reports whether the sub-agent never began: it has no conversation, used nothing and took
// no time.
func (n *node) denied() bool { return n.last.ConversationID == "" && n.last.Phase == stream.Ended }

func (n *node) state() string {
	d := n.last
	switch {
	case d.Phase == stream.Ended && d.Reason != "":
		return d.Status + ": " + d.Reason
	case d.Phase == stream.Ended:
		return orDash(d.Status)
	case d.Phase == stream.Waiting:
		return stream.Waiting + ": " + waitsFor(d.Reason)
	case d.Tool != "":
		return stream.Running + " " + d.Tool
	}
	return orDash(d.Phase)
}

// waitsFor returns why a model is asked again later in words, where its name says little.
func waitsFor(reason string) string {
	switch reason {
	case "stream":
		return "the reply broke off"
	case "network":
		return "no connection"
	case "server":
		return "the provider failed"
	}
	return orDash(reason)
}

func (n *node) elapsed(now time.Time) string {
	if n.denied() {
		return ""
	}
	e := time.Duration(n.last.ElapsedMS) * time.Millisecond
	if p := n.last.Phase; p == stream.Running || p == stream.Started || p == stream.Waiting || p == stream.Queued {
		e += max(0, now.Sub(n.at))
	}
	return Elapsed(e)
}

// mark returns the state as one character.
func mark(d stream.Delegation, utf8 bool) string {
	switch {
	case d.Phase == stream.Ended && d.Status == "ok":
		return wording.Either(utf8, "✓", "+")
	case d.Phase == stream.Ended:
		return wording.Either(utf8, "✗", "x")
	case d.Phase == stream.Queued:
		return wording.Either(utf8, "○", ".")
	}
	return wording.Either(utf8, "●", "*")
}

func (t *Tree) paint(n *node, text string) string {
	if !t.io.ErrColor {
		return text
	}
	color := "36"
	switch d := n.last; {
	case d.Phase == stream.Ended && d.Status == "ok":
		color = "32"
	case d.Phase == stream.Ended && d.Status == "partial":
		color = "33"
	case d.Phase == stream.Ended:
		color = "31"
	case d.Phase == stream.Queued:
		color = "2"
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// Count writes a number with a separator between thousands.
func Count(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Elapsed writes a duration as people read it: 0.4s, 12s, 3m05s, 2h07m.
func Elapsed(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
