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
	maxContents     = 4 << 20   // bytes in all
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

// ContentsOf returns the path of the contents that are kept beside a record.
func ContentsOf(record string) string { return strings.TrimSuffix(record, ".json") + ".files" }

// readContents returns what is kept beside a record. What is not as its stamp says is left out.
func readContents(record string) contents {
	all := contents{}
	if data, _ := ReadOwn(ContentsOf(record)); data == nil || json.Unmarshal(data, &all) != nil {
		return contents{}
	}
	maps.DeleteFunc(all, func(stamp string, data []byte) bool { return DataStamp(data) != stamp })
	return all
}

// keep keeps the contents of the files of r beside the record: those that are present, and those that
// were kept before. Of the latest states first, as far as the bounds allow.
func (r Record) keep(record string, present contents) error {
	before, now, size := readContents(record), contents{}, 0
	for _, state := range slices.Concat([]State{r.State}, r.Earlier) {
		for _, key := range slices.Sorted(maps.Keys(state.Files)) {
			stamp := regular(state.Files[key])
			data, ok := present[stamp]
			if !ok {
				data, ok = before[stamp]
			}
			if _, has := now[stamp]; has || !ok || len(data) > maxContentsFile || size+len(data) > maxContents {
				continue
			}
			now[stamp] = data
			size += len(data)
		}
	}
	if slices.Equal(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(now))) {
		return nil
	}
	data, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return WriteOwn(ContentsOf(record), data)
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
	trusted, kept := map[string]string{}, readContents(j.Path)
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
