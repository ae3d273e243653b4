package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
)

// maxLeftOut bounds the name of what was left out, in columns. A line of a frontmatter may be as
// long as the file.
const maxLeftOut = 200

// omission is a part of a file that its profile does not have.
type omission struct {
	kind   string // tool, model and so on; "" if the reason is enough
	thing  string // name; "" if there is only one
	reason string
}

// String is a line about one file.
func (l omission) String() string {
	name := strings.TrimSpace(wording.Either(l.kind == "key", "", l.kind) + " " + l.thing)
	if name == "" {
		return l.reason
	}
	return name + ": " + l.reason
}

// noteImports prints what was left out. For one file it lists each thing; for several files it
// prints a line for each kind and reason.
func (g *Group) noteImports(list []imported) {
	if len(list) == 1 || g.Con.Globals.Verbose > 0 {
		for _, im := range list {
			if im.odd != "" {
				g.Con.Note("%s: %s", im.File, im.odd)
			}
			for _, text := range im.LeftOut {
				g.Con.Note("%s: left out: %s", im.File, text)
			}
		}
		return
	}
	odd := 0
	type group struct{ kind, reason string }
	var order []group
	files, things := map[group]int{}, map[group]map[string]int{}
	for _, im := range list {
		odd += wording.Either(im.odd != "", 1, 0)
		seen := map[group]bool{}
		for _, l := range im.left {
			k := group{l.kind, l.reason}
			if things[k] == nil {
				order, things[k] = append(order, k), map[string]int{}
			}
			if !seen[k] {
				files[k]++
			}
			seen[k] = true
			things[k][l.thing]++
		}
	}
	if odd > 0 {
		g.Con.Note("%s: the frontmatter is not YAML; it was read line by line", wording.Plural(odd, "file"))
	}
	for _, k := range order {
		names := slices.Collect(maps.Keys(things[k]))
		slices.SortFunc(names, func(x, y string) int { return cmp.Or(cmp.Compare(things[k][y], things[k][x]), cmp.Compare(x, y)) })
		const most = 6
		more := len(names) - most
		names = names[:min(len(names), most)]
		for i, name := range names {
			names[i] = term.Cut(name, 60, true) + wording.Either(things[k][name] > 1, fmt.Sprintf(" (%d)", things[k][name]), "")
		}
		what := strings.TrimSpace(wording.Either(k.kind == "key", "", k.kind+" ") + strings.Join(names, ", ") + wording.Either(more > 0, fmt.Sprintf(" and %d more", more), ""))
		if len(things[k]) == 1 && things[k][""] > 0 {
			what = k.kind
		}
		g.Con.Note("%s: left out: %s", wording.Plural(files[k], "file"), wording.Either(what == "", "", what+": ")+k.reason)
	}
	g.Con.Note("the top of each profile lists what was left out; -v prints all of it")
}
