// Package skill finds and reads skills: folders with a SKILL.md of instructions for one kind of
// work, in the folders where this program and others look for them.
package skill

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"jp/profiles/fault"
	"jp/profiles/tomldoc"
	"jp/tools/files"
)

// MaxBytes bounds a SKILL.md.
const MaxBytes = 256 << 10

// Skill is a SKILL.md: instructions for one kind of work.
type Skill struct {
	Name        string // name of its folder
	Description string // one line for a model to choose by
	Body        string // the instructions; never empty
	File        string // absolute path
	SHA256      string // of the file's bytes, hex
	ByHand      bool   // only a person starts it: it is offered to no model

	Notes []string // differences from the format, and how each was read
}

// maxDescription is the format's bound, in characters.
const maxDescription = 1024

// Places are where skills are searched.
type Places struct {
	Workspace string // absolute; "" = none
	Files     fs.FS  // of the workspace, by slash path below it; nil = none of it is read
	Home      string // absolute; "" = none. One in the workspace is not searched
}

// base is one of the places.
type base struct {
	dir   string
	files fs.FS // nil = the disk below dir
}

func (p Places) bases() (list []base) {
	if p.Workspace != "" && p.Files != nil {
		list = append(list, base{p.Workspace, p.Files})
	}
	if p.Home != "" && !files.Within(p.Workspace, p.Home) {
		list = append(list, base{dir: p.Home})
	}
	return list
}

// Find finds and reads a skill: in .jp/skills, .agents/skills and .claude/skills of the workspace,
// then of the home folder. The first folder that holds it counts, even if the skill cannot be used.
func Find(in Places, name string) (Skill, []byte, error) {
	if !isName(name) {
		return Skill{}, nil, errors.New("the name of a skill is at most 64 letters, digits, _ and -")
	}
	for _, at := range in.bases() {
		for _, dir := range folders() {
			rel := path.Join(dir, "skills", name, "SKILL.md")
			data, err := at.read(dir, rel)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
				continue
			}
			file := filepath.Join(at.dir, filepath.FromSlash(rel))
			if err != nil {
				return Skill{}, nil, fmt.Errorf("%s: %w", file, files.Reason(err))
			}
			s, err := parse(data)
			if err != nil {
				err.(*fault.Error).File = file
				return Skill{}, nil, err
			}
			if s.Name != "" && s.Name != name {
				s.Notes = append(s.Notes, fmt.Sprintf("its file %s calls it %s; here it goes by its folder", file, strconv.Quote(s.Name)))
			}
			s.Name = name
			sum := sha256.Sum256(data)
			s.File, s.SHA256 = file, hex.EncodeToString(sum[:])
			return s, data, nil
		}
	}
	return Skill{}, nil, fmt.Errorf("skill %s: not found in .jp/skills, .agents/skills or .claude/skills, here or in the home folder", name)
}

// folders are those of a place that hold skills.
func folders() []string { return []string{".jp", ".agents", ".claude"} }

// read reads the file rel below one of the folders.
func (b base) read(folder, rel string) ([]byte, error) {
	if b.files == nil {
		data, _, err := files.ReadRegular(files.Disk{}, filepath.Join(b.dir, rel), MaxBytes, 0)
		return data, err
	}
	data, _, err := files.ReadFS(b.files, rel, MaxBytes)
	if err != nil && files.Outside(err) {
		if folder == ".jp" {
			return nil, errors.New("leads out of " + filepath.Join(b.dir, folder))
		}
		return nil, errors.New("leads out of " + b.dir)
	}
	return data, err
}

// list returns at most n names in the folder rel. What cannot be read holds no skill.
func (b base) list(rel string, n int) []string {
	var folder fs.File
	var err error
	if b.files != nil {
		folder, err = b.files.Open(rel)
	} else {
		folder, err = os.OpenFile(filepath.Join(b.dir, rel), files.Reading|syscall.O_DIRECTORY, 0)
	}
	if err != nil {
		return nil
	}
	defer func() { _ = folder.Close() }()
	var names []string
	if dir, ok := folder.(fs.ReadDirFile); ok {
		entries, _ := dir.ReadDir(n)
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	return names
}

// parse reads a SKILL.md: a frontmatter of YAML between lines of ---, then the body. Of the YAML
// only the three keys that count are read, and only as plain, quoted or block text; the rest is
// ignored. Its errors are *fault.Error without a file.
func parse(data []byte) (Skill, error) {
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(string(data), "\ufeff"))
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return Skill{}, &fault.Error{Msg: "not UTF-8 text"}
	}
	lines := strings.Split(text, "\n")
	if strings.TrimRight(lines[0], " \t") != "---" {
		return Skill{}, &fault.Error{Line: 1, Msg: "must begin with a frontmatter between lines of ---"}
	}
	end := 0
	for i := 1; i < len(lines) && end == 0; i++ {
		if strings.TrimRight(lines[i], " \t") == "---" {
			end = i
		}
	}
	if end == 0 {
		return Skill{}, &fault.Error{Line: 1, Msg: "the frontmatter has no end"}
	}
	s := Skill{Body: strings.TrimSpace(strings.Join(lines[end+1:], "\n"))}
	byHand := ""
	keys := map[string]*string{"name": &s.Name, "description": &s.Description, "disable-model-invocation": &byHand}
	for i := 1; i < end; i++ {
		key, value, ok := strings.Cut(lines[i], ":")
		key = strings.Trim(strings.TrimRight(key, " \t"), `"'`)
		to := keys[key]
		if !ok || to == nil {
			continue
		}
		at := i
		for i+1 < end && (strings.TrimSpace(lines[i+1]) == "" || strings.HasPrefix(lines[i+1], " ") || strings.HasPrefix(lines[i+1], "\t")) {
			i++
		}
		text, err := scalar(strings.TrimSpace(value), lines[at+1:i+1])
		switch {
		case err == nil && *to != "":
			err = errors.New("is there twice")
		case err == nil && to == &byHand && slices.Contains([]string{"", "~", "null", "no", "off", "false"}, strings.ToLower(text)):
			text = "false"
		case err == nil && text == "":
			err = errors.New("must not be empty")
		case err == nil && strings.ContainsFunc(text, unicode.IsControl):
			err = errors.New("must not hold control characters")
		case err == nil && key == "name" && len(text) > maxDescription:
			err = fmt.Errorf("must be at most %d bytes", maxDescription)
		case err == nil && to == &byHand:
			if s.ByHand = slices.Contains([]string{"true", "yes", "on"}, strings.ToLower(text)); !s.ByHand {
				err = errors.New("must be true or false")
			}
		}
		if err != nil {
			return Skill{}, &fault.Error{Line: at + 1, Key: key, Msg: err.Error()}
		}
		*to = text
	}
	switch {
	case s.Description == "":
		return Skill{}, &fault.Error{Line: 1, Key: "description", Msg: "is missing"}
	case s.Body == "":
		return Skill{}, &fault.Error{Line: end + 1, Msg: "says nothing below the frontmatter"}
	}
	if runes := []rune(s.Description); len(runes) > maxDescription {
		s.Description = string(runes[:maxDescription-1]) + "…"
		s.Notes = append(s.Notes, fmt.Sprintf("its description is longer than %d characters, and cut", maxDescription))
	}
	return s, nil
}

// scalar reads a YAML text, folded into one line. more are the indented lines below its key.
func scalar(first string, more []string) (string, error) {
	for first == "" && len(more) > 0 { // it may begin below its key
		first, more = strings.TrimSpace(more[0]), more[1:]
	}
	all := strings.Join(strings.Fields(strings.Join(append([]string{first}, more...), " ")), " ")
	if first == "" {
		return all, nil
	}
	switch first[0] {
	case '>', '|':
		if strings.Trim(first, ">|+-0123456789") != "" {
			return "", errors.New("is no text that can be read here")
		}
		return strings.Join(strings.Fields(strings.Join(more, " ")), " "), nil
	case '"':
		var b strings.Builder
		rest, closed := strings.CutSuffix(all[1:], `"`)
		for closed && rest != "" {
			r, _, tail, err := strconv.UnquoteChar(rest, '"')
			if rest, closed = tail, err == nil; closed {
				b.WriteRune(r) // to YAML, \xd1 is a character and no byte
			}
		}
		if !closed {
			return "", errors.New("the quotes are not closed, or hold an escape that is not read here")
		}
		return strings.Join(strings.Fields(b.String()), " "), nil
	case '\'':
		if len(all) < 2 || all[len(all)-1] != '\'' || strings.Contains(strings.ReplaceAll(all[1:len(all)-1], "''", ""), "'") {
			return "", errors.New("the quotes are not closed")
		}
		return strings.ReplaceAll(all[1:len(all)-1], "''", "'"), nil
	case '[', ']', '{', '}', '&', '*', '!', '%', '@', '`', '#':
		return "", errors.New("is no text that can be read here")
	}
	if i := strings.Index(all, " #"); i >= 0 {
		all = all[:i]
	}
	return strings.TrimSpace(all), nil
}

// All finds all skills, sorted by name. Of several with one name it returns the one that Find
// finds. Skills that cannot be used are among the problems. At most 256 are looked at.
func All(in Places) (found []Skill, problems []error) {
	const most = 256
	var names []string
	for _, at := range in.bases() {
		for _, dir := range folders() {
			names = append(names, at.list(path.Join(dir, "skills"), most+1)...)
		}
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool { return !isName(name) })
	if len(names) > most {
		problems = append(problems, fmt.Errorf("more than %d skills; the others are not offered", most))
		names = names[:most]
	}
	for _, name := range names {
		if s, _, err := Find(in, name); err != nil {
			problems = append(problems, err)
		} else {
			found = append(found, s)
		}
	}
	return found, problems
}

// isName reports whether s can be the name of a skill: at most 64 letters, digits, _ and -.
func isName(s string) bool { return len(s) <= 64 && tomldoc.IsBareKey(s) }
