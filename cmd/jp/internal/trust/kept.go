package trust

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// contents has the bytes of files by their stamp as regular files.
type contents map[string][]byte

// Bounds of the contents that are kept of the files of all trusted states, so that a person can be
// shown what has changed in them.
const (
	maxContents     = 3 << 20   // bytes in all
	maxContentsFile = 256 << 10 // bytes of one file
)

func (c contents) add(data []byte) { c[DataStamp(data)] = data }

// contents returns the bytes of the files that are in memory.
func (c *Files) contents() contents {
	all := contents{}
	for key, data := range c.Data {
		all[regular(c.Stamps[key])] = data
	}
	return all
}

// regular returns the stamp of a regular file in the stamp of a file, or of a link to one; "" = of
// neither.
func regular(stamp string) string {
	if i := strings.LastIndexAny(stamp, "\" "); strings.HasPrefix(stamp[i+1:], "sha256:") {
		return stamp[i+1:]
	}
	return ""
}

// kept is what lies beside a record, to show a person what differs from a trusted state. It allows
// nothing, and is read only when a page is made.
type kept struct {
	Files contents `json:"files"`
	// Pages are the lines of the page of each state, by the digest of its files; see Shown.Page.
	Pages map[string]map[string][]string `json:"pages"`
}

// KeptBeside returns the path of what is kept beside a record.
func KeptBeside(record string) string { return strings.TrimSuffix(record, ".json") + ".kept" }

// readKept returns what is kept beside a record. What is not as its stamp says is left out.
func readKept(record string) (k kept) {
	if data, _ := ReadOwn(KeptBeside(record)); data == nil || json.Unmarshal(data, &k) != nil {
		return kept{}
	}
	maps.DeleteFunc(k.Files, func(stamp string, data []byte) bool { return DataStamp(data) != stamp })
	return k
}

// pages sets the pages of all states of r that are kept.
func (r *Record) pages(k kept) {
	for _, s := range append([]State{r.State}, r.Earlier...) {
		if s.Shown != nil {
			s.Shown.Page = k.Pages[digest(s.Files)]
		}
	}
}

// keep keeps beside the record the pages of r and the contents of its files: those that are
// present, and those that were kept before. Of the latest states first, as far as the bounds allow.
func (r Record) keep(record string, before kept, present contents) error {
	now, size := kept{contents{}, map[string]map[string][]string{}}, 0
	for _, state := range append([]State{r.State}, r.Earlier...) {
		if state.Shown != nil && state.Shown.Page != nil {
			now.Pages[digest(state.Files)] = state.Shown.Page
		}
		for _, key := range slices.Sorted(maps.Keys(state.Files)) {
			stamp := regular(state.Files[key])
			data, ok := present[stamp]
			if !ok {
				data, ok = before.Files[stamp]
			}
			if _, has := now.Files[stamp]; has || !ok || len(data) > maxContentsFile || size+len(data) > maxContents {
				continue
			}
			now.Files[stamp] = data
			size += len(data)
		}
	}
	data, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return WriteOwn(KeptBeside(record), data)
}

// Before returns what was shown of the trusted state with which j compares, with its page; nil =
// nothing.
func (j Judgement) Before() *Shown {
	if j.Record == nil || j.Record.Shown == nil {
		return nil
	}
	shown := *j.Record.Shown
	shown.Page = readKept(j.Path).Pages[digest(j.Record.Files)]
	return &shown
}

// Side is one side of a change: a file as it was trusted, or as it is.
type Side struct {
	Stamp string // "" = there is no file
	Data  []byte // bytes of a regular file
	Known bool   // whether Data is known: not of a file that is too large, was not kept or is none
}

// Regular reports whether the side is a regular file, or a link to one.
func (s Side) Regular() bool { return regular(s.Stamp) != "" }

// Kind returns what the side is if it is no regular file: a link, a FIFO.
func (s Side) Kind() string { return strings.TrimSpace(strings.TrimSuffix(s.Stamp, regular(s.Stamp))) }

// Sides returns both sides of each change of j, by path.
func (j Judgement) Sides() map[string][2]Side {
	trusted, kept := map[string]string{}, readKept(j.Path).Files
	if j.Record != nil {
		trusted = j.Record.trusted(j.Files.Stamps)
	}
	sides := map[string][2]Side{}
	for _, c := range j.Changes {
		was, wasKnown := kept[regular(trusted[c.Path])]
		is, known := j.Files.Data[c.Path]
		sides[c.Path] = [2]Side{{trusted[c.Path], was, wasKnown}, {j.Files.Stamps[c.Path], is, known}}
	}
	return sides
}
