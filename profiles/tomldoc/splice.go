package tomldoc

import (
	"slices"
	"strings"
)

// Put sets the value at parts. It reports false if a value that is no table is on the way.
func Put(tree map[string]any, parts []string, v any) bool {
	for _, p := range parts[:len(parts)-1] {
		if _, ok := tree[p]; !ok {
			tree[p] = map[string]any{}
		}
		next, ok := tree[p].(map[string]any)
		if !ok {
			return false
		}
		tree = next
	}
	tree[parts[len(parts)-1]] = v
	return true
}

// Splice puts value at the key parts. If the key is there, its value is replaced. Otherwise the new
// line goes into the table that it belongs to, else beside keys of the same table that are written
// from further up, else into a new table at the end.
func Splice(src string, list []Statement, parts []string, value string) string {
	last := len(parts) - 1
	header, beside := -1, -1 // indices of list
	open, besideIn := 0, 0   // length of the path of the table that is open, and was at beside
	for i, s := range list {
		switch {
		case s.InList:
		case s.Header:
			if open = len(s.Path); slices.Equal(s.Path, parts[:last]) {
				header = i
			}
		case slices.Equal(s.Path, parts):
			return src[:s.Value] + value + src[s.End:]
		case s.holds(src, parts):
			return spliceInline(src, s.Value, parts[len(s.Path):], value)
		case open <= last && len(s.Path) > last && slices.Equal(s.Path[:last], parts[:last]):
			beside, besideIn = i, open
		}
	}
	if header >= 0 {
		for header+1 < len(list) && !list[header+1].Header { // behind its last pair
			header++
		}
		return spliceLine(src, list[header], Key(parts[last:])+" = "+value)
	}
	if beside >= 0 {
		return spliceLine(src, list[beside], Key(parts[besideIn:])+" = "+value)
	}
	end := newline(src)
	if last == 0 { // before all tables
		return Key(parts) + " = " + value + end + src
	}
	if src != "" {
		src = strings.TrimRight(src, "\r\n \t") + end + end
	}
	return src + "[" + Key(parts[:last]) + "]" + end + Key(parts[last:]) + " = " + value + end
}

// Cut takes out the lines of the key parts, or of the table with all below it and the empty line
// before it, also in an inline table. Comments on lines of their own stay.
func Cut(src string, list []Statement, parts []string) string {
	for _, s := range slices.Backward(list) {
		if s.holds(src, parts) {
			src = cutInline(src, s.Value, parts[len(s.Path):])
		}
		if !begins(parts, s.Path) {
			continue
		}
		end := len(src)
		if i := strings.IndexByte(src[s.End:], '\n'); i >= 0 {
			end = s.End + i + 1
		}
		before := src[:strings.LastIndexByte(src[:s.Start], '\n')+1]
		if gap := newline(src); s.Header && strings.HasSuffix(before, gap+gap) {
			before = strings.TrimSuffix(before, gap)
		}
		src = before + src[end:]
	}
	return src
}

// cutInline takes the key parts, or the table with all below it, out of the inline table that opens
// at the offset open.
func cutInline(src string, open int, parts []string) string {
	pairs, closing, err := InlinePairs(src, open)
	if err != nil {
		return src
	}
	for i, s := range pairs {
		switch {
		case s.holds(src, parts):
			return cutInline(src, s.Value, parts[len(s.Path):])
		case !begins(parts, s.Path):
			continue
		case len(pairs) == 1:
			return src[:open+1] + src[closing:]
		case i == 0:
			src = src[:s.Start] + src[pairs[1].Start:]
		default:
			src = src[:pairs[i-1].End] + src[s.End:]
		}
		return cutInline(src, open, parts) // dotted keys can have more of it
	}
	return src
}

// begins reports whether a key begins a path.
func begins(key, path []string) bool {
	return len(key) <= len(path) && slices.Equal(path[:len(key)], key)
}

// holds reports whether the value of a pair of src is an inline table that the key may lie in.
func (s Statement) holds(src string, key []string) bool {
	return !s.Header && len(s.Path) < len(key) && begins(s.Path, key) && src[s.Value] == '{'
}

// Prune removes the empty tables of tree above the key parts that are not in now.
func Prune(tree, now map[string]any, parts []string) {
	for i := len(parts) - 1; i > 0; i-- {
		v, _ := Lookup(tree, parts[:i])
		if t, ok := v.(map[string]any); !ok || len(t) > 0 {
			return
		}
		if _, ok := Lookup(now, parts[:i]); ok {
			return
		}
		Drop(tree, parts[:i])
	}
}

// Drop removes the value at parts.
func Drop(tree map[string]any, parts []string) {
	for _, p := range parts[:len(parts)-1] {
		tree, _ = tree[p].(map[string]any)
	}
	delete(tree, parts[len(parts)-1])
}

// spliceLine adds a line behind that of s, with the same indentation.
func spliceLine(src string, s Statement, text string) string {
	begin := strings.LastIndexByte(src[:s.Start], '\n') + 1
	indent := src[begin:s.Start]
	if strings.Trim(indent, " \t") != "" {
		indent = ""
	}
	i := strings.IndexByte(src[s.End:], '\n')
	if i < 0 {
		return src + newline(src) + indent + text + newline(src)
	}
	at := s.End + i + 1
	return src[:at] + indent + text + newline(src) + src[at:]
}

// spliceInline puts a value at parts of the inline table that opens at the offset open.
func spliceInline(src string, open int, parts []string, value string) string {
	pairs, closing, err := InlinePairs(src, open)
	if err != nil {
		return src
	}
	for _, s := range pairs {
		switch {
		case slices.Equal(s.Path, parts):
			return src[:s.Value] + value + src[s.End:]
		case s.holds(src, parts):
			return spliceInline(src, s.Value, parts[len(s.Path):], value)
		}
	}
	pair := Key(parts) + " = " + value
	if len(pairs) == 0 {
		return src[:open+1] + " " + pair + " " + src[closing:]
	}
	end := pairs[len(pairs)-1].End
	return src[:end] + ", " + pair + src[end:]
}

func newline(src string) string {
	if strings.Contains(src, "\r\n") {
		return "\r\n"
	}
	return "\n"
}
