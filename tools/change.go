package tools

import (
	"fmt"
	"slices"
	"strings"

	"jp/tools/unseen"
)

// changing has the parameters of the built-in tools that change files.
var changing = map[string][]string{"fs_create_file": {"path", "content", "overwrite"}, "fs_modify_file": {"path", "edits"}}

// ChangesFile reports whether a built-in tool changes a file. Its result then says what it did.
func ChangesFile(tool string) bool { return changing[tool] != nil }

// changeParts shows what a built-in tool would change in a file, as a person reads it: the path,
// then what is removed and what is added. It is nil for other tools, and for arguments in another
// form than the tool takes.
func changeParts(tool string, args map[string]any) []part {
	path, ok := args["path"].(string)
	if !ok {
		return nil
	}
	if !onlyKeys(args, changing[tool]) {
		return nil
	}
	parts := []part{shownArgument("path", path)}
	if tool == "fs_create_file" {
		content, ok := args["content"].(string)
		if !ok {
			return nil
		}
		if overwrite, given := args["overwrite"]; given {
			parts = append(parts, shownArgument("overwrite", overwrite))
		}
		p := part{"content", changedLines("", content)}
		if !strings.HasSuffix(content, "\n") {
			p.lines = append(p.lines, "  (no line break at the end)")
		}
		return append(parts, p)
	}
	edits, ok := args["edits"].([]any)
	if !ok {
		return nil
	}
	for i, e := range edits {
		edit, _ := e.(map[string]any)
		before, isText := edit["old"].(string)
		after, isToo := edit["new"].(string)
		if !isText || !isToo || !onlyKeys(edit, []string{"old", "new", "all"}) {
			return nil
		}
		head := fmt.Sprintf("edit %d of %d", i+1, len(edits))
		if all, given := edit["all"]; given {
			head += ", all = " + visibleJSON(all)
		}
		parts = append(parts, part{fmt.Sprintf("edit %d", i+1), append([]string{head}, changedLines(before, after)...)})
	}
	return parts
}

// onlyKeys reports whether args has no other keys than those.
func onlyKeys(args map[string]any, keys []string) bool {
	for k := range args {
		if !slices.Contains(keys, k) {
			return false
		}
	}
	return true
}

// changedLines marks the lines of two texts: " " before those that are the same at the beginning
// and at the end, "- " before those that are removed and "+ " before those that are added. Lines
// are quoted if one of them has characters that do not show, or if two different lines would look
// the same.
func changedLines(before, after string) []string {
	was, is := slices.Collect(strings.Lines(before)), slices.Collect(strings.Lines(after))
	head := 0
	for head < min(len(was), len(is)) && was[head] == is[head] {
		head++
	}
	tail := 0
	for tail < min(len(was), len(is))-head && was[len(was)-1-tail] == is[len(is)-1-tail] {
		tail++
	}
	out, in := was[head:len(was)-tail], is[head:len(is)-tail]
	show := unseen.ShowLines(out, in)
	var lines []string
	for _, part := range []struct {
		mark  string
		lines []string
	}{{"  ", was[:head]}, {"- ", out}, {"+ ", in}, {"  ", was[len(was)-tail:]}} {
		for _, line := range part.lines {
			lines = append(lines, "  "+part.mark+show(line))
		}
	}
	return lines
}
