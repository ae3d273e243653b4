package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"jp/tools"
)

// Shown is what the page of a workspace has shown to the person who trusted it. What it lacks
// cannot run, see run.Env.Definitions: the page and the check use these methods. The zero Shown
// lacks everything.
type Shown struct {
	// Tools are lines "authority permissions" by the name of a tool, each as its definition gives
	// them. Several tools can have one name.
	Tools map[string][]string `json:"tools"`
	// Settings are digests of keys with their values, sorted.
	Settings []string `json:"settings"`
	// Page has the lines of the page by the title that they stand below, so that the page of a
	// later state can leave out what is the same. Nil = they were not kept, or not read: see kept.
	// They allow nothing: see Has.
	Page map[string][]string `json:"-"`
}

// maxPage bounds Shown.Page, in bytes.
const maxPage = 64 << 10

// SetPage keeps the lines of the page, or none of them if they are too long.
func (s *Shown) SetPage(lines map[string][]string) {
	size := 0
	for title, list := range lines {
		size += len(title) + len(strings.Join(list, "\n"))
	}
	if s.Page = lines; size > maxPage {
		s.Page = nil
	}
}

// AddTool adds the tool d. A tool whose authority cannot be known is never shown.
func (s *Shown) AddTool(d tools.Definition) {
	if authority := d.Authority(); authority != "" && !s.HasTool(d) {
		s.add(d.Name, authority+" "+d.Permissions())
	}
}

func (s *Shown) add(name string, lines ...string) {
	if s.Tools == nil {
		s.Tools = map[string][]string{}
	}
	s.Tools[name] = slices.Compact(slices.Sorted(slices.Values(slices.Concat(s.Tools[name], lines))))
}

// HasTool reports whether a tool was shown that can do all that d can do. One that may do less
// without a question is covered by one that may do more.
func (s *Shown) HasTool(d tools.Definition) bool {
	permissions := d.Permissions()
	return s.reaches(d, func(shown string) bool { return tools.StricterPermissions(shown, permissions) == permissions })
}

// HasReach is HasTool whatever d may do without a question.
func (s *Shown) HasReach(d tools.Definition) bool {
	return s.reaches(d, func(string) bool { return true })
}

func (s *Shown) reaches(d tools.Definition, permitted func(shown string) bool) bool {
	own := d.Authority()
	return own != "" && slices.ContainsFunc(s.Tools[d.Name], func(line string) bool {
		authority, permissions, _ := strings.Cut(line, " ")
		return authority == own && permitted(permissions)
	})
}

// AddSetting adds a setting.
func (s *Shown) AddSetting(key string, value any) {
	if at, has := slices.BinarySearch(s.Settings, settingDigest(key, value)); !has {
		s.Settings = slices.Insert(s.Settings, at, settingDigest(key, value))
	}
}

// HasSetting reports whether a setting was shown with this value.
func (s *Shown) HasSetting(key string, value any) bool {
	_, has := slices.BinarySearch(s.Settings, settingDigest(key, value))
	return has
}

// settingDigest is the digest of a key and a value as config has it, which JSON can hold.
func settingDigest(key string, value any) string {
	data, err := json.Marshal([]any{key, value})
	if err != nil {
		panic("trust: " + err.Error()) // package tomldoc lets no such value in
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// Has reports whether all of other was shown.
func (s *Shown) Has(other Shown) bool { return len(other.without(*s)) == 0 }

// without returns the lines and digests of s that other lacks, by name; those of settings by "".
func (s *Shown) without(other Shown) map[string][]string {
	left := map[string][]string{}
	more := func(name string, of, among []string) {
		for _, line := range of {
			if !slices.Contains(among, line) {
				left[name] = append(left[name], line)
			}
		}
	}
	for name, lines := range s.Tools {
		more(name, lines, other.Tools[name])
	}
	more("", s.Settings, other.Settings)
	return left
}

// Plus returns s with what after has and before lacks, and its page without the lines that before
// has and after lacks.
func (s *Shown) Plus(before, after Shown) Shown {
	sum := Shown{Tools: maps.Clone(s.Tools), Settings: slices.Clone(s.Settings)}
	for name, lines := range after.without(before) {
		if name == "" {
			sum.Settings = slices.Compact(slices.Sorted(slices.Values(append(sum.Settings, lines...))))
		} else {
			sum.add(name, lines...)
		}
	}
	if s.Page == nil { // then what the page said is not known
		return sum
	}
	page := map[string][]string{}
	for _, title := range slices.Concat(slices.Collect(maps.Keys(s.Page)), slices.Collect(maps.Keys(after.Page))) {
		gone := func(line string) bool {
			return slices.Contains(before.Page[title], line) && !slices.Contains(after.Page[title], line)
		}
		page[title] = slices.DeleteFunc(slices.Clone(s.Page[title]), gone)
		for _, line := range after.Page[title] {
			if !slices.Contains(before.Page[title], line) && !slices.Contains(page[title], line) {
				page[title] = append(page[title], line)
			}
		}
	}
	sum.SetPage(page)
	return sum
}
