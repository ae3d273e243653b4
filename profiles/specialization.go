package profiles

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"jp/profiles/fault"
	"jp/profiles/ini"
	"jp/profiles/kinds"
	"jp/profiles/skill"
	"jp/profiles/tomldoc"
	"jp/tools/suggest"
)

// ToolPrefix begins the names of the tools that INI sections define.
const ToolPrefix = "llm_tool_"

const (
	specializationsFile = "specializations.ini" // in .jp
	specializationsKey  = "delegation.specializations"
	maxSpecializations  = 64
	maxWindow           = 1_000_000
)

// Specialization is a delegation tool that an INI section defines.
type Specialization struct {
	Tool          string // llm_tool_<name>, also the section
	Patch         string // goes into the sub-agent's system prompt, below the generic one; never empty
	Session       string // session_id: calls of one caller with it continue one sub-agent; "" = each starts a new one
	Skill         Skill
	ContextWindow int      // earlier turns that the sub-agent gets; 0 = all
	Arg           string   // name in the argv of a child: <absolute path of the file>#<section>
	Hash          string   // hex SHA-256 of the section's values and the skill's file
	Pos           Position // of the section
}

// LoadSpecializations reads the sections [llm_tool_<name>] of an INI file, sorted by name. Other
// sections are ignored. file may be "" for .jp/specializations.ini, which need not exist; otherwise
// a relative path is relative to the workspace. Skills are searched in the workspace and below HOME
// of src.Environ. Reserved are names of tools that no section may take. Every error is an *Error
// with file and line.
func LoadSpecializations(src Sources, file string, reserved []string) ([]Specialization, error) {
	src.Reserved = reserved
	r, err := newResolver(src)
	if err != nil {
		return nil, err
	}
	at := r.ini
	if file != "" {
		abs := file
		if !filepath.IsAbs(abs) {
			abs = filepath.Join(cmp.Or(r.src.Workspace, r.dir), file)
		}
		located := r.files.at(filepath.Clean(abs))
		at = &located
	}
	_, list, err := r.readSpecializations(at, file != "")
	return list, err
}

// specialize reads the INI file that the implicit layers name and puts its tools on the stack of
// layers. What these layers say about the same tools wins.
func (r *resolver) specialize() error {
	d, list, err := r.readSpecializations(r.ini, r.iniSet)
	if err != nil || d == nil {
		return err
	}
	r.pile(list)
	r.Specializations = make(map[string]Specialization, len(list))
	held := map[string]any{}
	d.marks = &tomldoc.Mark{Line: 1}
	at := d.marks.Key("conversation", 1).Key("tools", 1)
	_, runs := tomldoc.Lookup(r.plain, []string{"conversation", "tools", "*", "run"})
	for _, s := range list {
		r.Specializations[s.Tool] = s
		own := map[string]any{}
		before, _ := tomldoc.Lookup(r.plain, []string{"conversation", "tools", s.Tool})
		said, _ := before.(map[string]any)
		if source, ok := said["source"]; ok && source != "delegation" {
			p := r.where("conversation", "tools", s.Tool, "source")
			return &Error{File: s.Pos.File, Line: s.Pos.Line, Key: s.Tool, Msg: "a tool of this name is configured at " + p.String() + " already"}
		}
		own["source"] = "delegation"
		if _, ok := said["run"]; !ok && !runs {
			// A section is there because a person wants the tool. What it may cost and hold is
			// bounded elsewhere.
			own["run"] = "unattended"
		}
		held[s.Tool] = own
		at.Key(s.Tool, s.Pos.Line)
	}
	d.tree = map[string]any{"conversation": map[string]any{"tools": held}}
	return r.add(d)
}

// pile records the skills that were read. They have no settings of their own.
func (r *resolver) pile(list []Specialization) {
	seen := map[string]bool{}
	for _, s := range list {
		if !seen[s.Skill.File] {
			seen[s.Skill.File] = true
			r.applied = append(r.applied, &applied{document: &document{layer: Layer{
				Kind: INILayer, Name: "skill " + s.Skill.Name, File: s.Skill.File, Via: s.Pos.File, SHA256: s.Skill.SHA256,
			}}})
		}
	}
}

// respecialize reads the sections of the tools in a stored config. If it has none, the file is not
// read: a sub-agent must not fail because of it.
func (r *resolver) respecialize() error {
	v, _ := tomldoc.Lookup(r.plain, []string{"conversation", "tools"})
	held, _ := v.(map[string]any)
	if !slices.ContainsFunc(sortedKeys(held), func(name string) bool { return isSpecialized(name, held[name]) }) {
		return nil
	}
	d, list, err := r.readSpecializations(r.ini, false)
	if err != nil || d == nil {
		return err
	}
	r.applied = append(r.applied, &applied{document: d})
	r.pile(list)
	r.Specializations = map[string]Specialization{}
	for _, s := range list {
		if isSpecialized(s.Tool, held[s.Tool]) {
			r.Specializations[s.Tool] = s
		}
	}
	return nil
}

// isSpecialized reports whether the table of a tool is for an INI section.
func isSpecialized(name string, table any) bool {
	values, _ := table.(map[string]any)
	return strings.HasPrefix(name, ToolPrefix) && values["source"] == "delegation" && values["enable"] != false
}

// unspecialized finds the tools whose section is not there. In a stored config the section was
// removed, and the tool goes with it; elsewhere somebody expects it.
func (r *resolver) unspecialized() error {
	for _, name := range sortedKeys(r.Tools) {
		if _, there := r.Specializations[name]; there || !isSpecialized(name, r.Tools[name].Values) {
			continue
		}
		key := []string{"conversation", "tools", name}
		if r.where(key...).Layer != "stored config" {
			return r.failAt("is the tool of an INI section that is not there", "only main agents have these tools, by a section ["+name+"]", key...)
		}
		r.warn("tool " + name + ": its section is gone, and the tool with it")
		delete(r.Tools, name)
	}
	return nil
}

// readSpecializations reads one file; the document has its layer only. A nil location is no file.
func (r *resolver) readSpecializations(at *location, mustExist bool) (*document, []Specialization, error) {
	if at == nil {
		return nil, nil, nil
	}
	fail := func(err error) (*document, []Specialization, error) {
		return nil, nil, &Error{File: at.abs(), Msg: err.Error(), Err: err}
	}
	switch ok, err := r.files.exists(*at); {
	case err != nil:
		return fail(err)
	case !ok && !mustExist:
		return nil, nil, nil
	case !ok:
		return nil, nil, &Error{File: at.abs(), Msg: "not found", Err: ErrNotFound}
	}
	data, _, err := r.files.read(*at)
	if err != nil {
		return fail(err)
	}
	sections, err := ini.Parse(data)
	if err != nil {
		e := err.(*fault.Error)
		e.File = at.abs()
		return nil, nil, e
	}
	layer := Layer{Kind: INILayer, Name: "specializations", File: at.abs(), SHA256: hashHex(data)}
	var list []Specialization
	names := map[string]int{}
	for _, s := range sections {
		if !strings.HasPrefix(s.Name, ToolPrefix) {
			// Sections of other programs may be here; a misspelled one must not pass for them.
			if near := suggest.Closest(s.Name[:min(len(s.Name), len(ToolPrefix))], []string{ToolPrefix}); near != "" {
				return nil, nil, &Error{File: at.abs(), Line: s.Line, Key: s.Name, Msg: "unknown section", Hint: "did you mean [" + ToolPrefix + "<name>]?"}
			}
			continue
		}
		if first := names[strings.ToLower(s.Name)]; first > 0 {
			return nil, nil, &Error{File: at.abs(), Line: s.Line, Key: s.Name, Msg: fmt.Sprintf("differs only in case from the tool of line %d", first)}
		}
		names[strings.ToLower(s.Name)] = s.Line
		if len(list) == maxSpecializations {
			return nil, nil, &Error{File: at.abs(), Line: s.Line, Key: s.Name, Msg: fmt.Sprintf("more than %d specializations", maxSpecializations)}
		}
		spec, err := r.specialization(at.abs(), s)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, spec)
	}
	slices.SortFunc(list, func(a, b Specialization) int { return cmp.Compare(a.Tool, b.Tool) })
	return &document{layer: layer, from: *at}, list, nil
}

// specialization checks one section.
func (r *resolver) specialization(file string, s ini.Section) (Specialization, error) {
	fail := func(line int, key, msg, hint string) (Specialization, error) {
		if key = s.Name + "." + key; strings.HasSuffix(key, ".") {
			key = s.Name
		}
		return Specialization{}, &Error{File: file, Line: line, Key: key, Msg: msg, Hint: hint}
	}
	name := s.Name[len(ToolPrefix):]
	switch {
	case name == "":
		return fail(s.Line, "", "the name behind "+ToolPrefix+" is missing", "")
	case !isToolName(s.Name):
		return fail(s.Line, "", "a tool's name is at most 64 letters, digits, _ and -", "")
	case slices.Contains(r.src.Reserved, name) || slices.Contains(r.src.Reserved, s.Name):
		return fail(s.Line, "", "the name is that of a tool that jp brings along", "")
	}
	spec := Specialization{
		Tool: s.Name, Arg: file + "#" + s.Name,
		Pos: Position{File: file, Line: s.Line, Layer: "specializations"},
	}
	values := map[string]string{}
	skillLine := s.Line
	for _, k := range s.Keys {
		keys := []string{"context_window", "session_id", "skill", "system_prompt_patch"}
		if !slices.Contains(keys, k.Name) {
			return fail(k.Line, k.Name, "unknown key", suggest.Meant("did you mean %s?", k.Name, keys))
		}
		value := strings.TrimSpace(k.Value)
		if value == "" {
			return fail(k.Line, k.Name, "must not be empty", "")
		}
		switch k.Name {
		case "context_window":
			n, err := window(value)
			if err != nil {
				return fail(k.Line, k.Name, err.Error(), "")
			}
			spec.ContextWindow = n
		case "session_id":
			if len(value) > 128 || kinds.NoControl(value) != nil {
				return fail(k.Line, k.Name, "must be at most 128 bytes in one line", "")
			}
		case "skill":
			skillLine = k.Line
		}
		values[k.Name] = value
	}
	for _, key := range []string{"system_prompt_patch", "session_id", "skill"} {
		if values[key] == "" {
			return fail(s.Line, key, "is missing", "")
		}
	}
	spec.Patch, spec.Session = values["system_prompt_patch"], values["session_id"]
	found, data, err := skill.Find(r.skills, values["skill"])
	if err != nil {
		return fail(skillLine, "skill", err.Error(), "")
	}
	spec.Skill = found
	spec.Hash = hashHex([]byte(strconv.Quote(spec.Patch) + strconv.Quote(spec.Session) + strconv.Quote(found.Name) +
		strconv.Itoa(spec.ContextWindow) + "\n" + string(data)))
	return spec, nil
}

// window reads a number of turns.
func window(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || strings.Trim(s, "0123456789") != "" || n > maxWindow {
		return 0, fmt.Errorf("must be a whole number from 0 (all earlier turns) to %d", maxWindow)
	}
	return n, nil
}

func isToolName(s string) bool { return len(s) <= 64 && tomldoc.IsBareKey(s) }

// Skill is a SKILL.md: instructions for one kind of work.
type Skill = skill.Skill

// Skills finds all skills of the workspace and the home folder, as skill.All does.
func Skills(src Sources) (found []Skill, problems []error) {
	home := environment(src.Environ)["HOME"]
	if home = filepath.Clean(home); !filepath.IsAbs(home) {
		home = ""
	}
	return skill.All(skill.Places{Workspace: src.Workspace, Files: src.Files, Home: home})
}

// specializationsSetting follows delegation.specializations.
func (r *resolver) specializationsSetting(d *document, l leaf) error {
	at, err := r.iniFile(d, l.value.(string))
	if err != nil {
		return d.fail(l.parts, err.Error(), "")
	}
	r.ini, r.iniSet, r.iniName = &at, true, l.value.(string)
	return nil
}

// iniFile: as with config_load_paths, the workspace's files name only files in .jp.
func (r *resolver) iniFile(d *document, entry string) (location, error) {
	if path.Ext(entry) != ".ini" {
		return location{}, errors.New("must be the path of an .ini file")
	}
	return r.searchDir(d, entry)
}
