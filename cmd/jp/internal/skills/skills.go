// Package skills is what the agents of a tree can read of skills: the root finds them once, and
// every sub-agent has the list of its root.
package skills

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/wire"
	"jp/cmd/jp/internal/workspace"
	"jp/profiles"
	"jp/tools"
)

// maxList bounds what the list of skills adds to every request, in bytes.
const maxList = 16 << 10

// List are skills that a run may read. It does not change.
type List []profiles.Skill

// Find returns the skills of the home folder, and those of the workspace that have passed the gate,
// without those that only a person starts. It says what is wrong with others.
func Find(con *console.Console, ws *workspace.Workspace) (list List) {
	found, problems := profiles.Skills(ws.SourcesOf(ws.Gate.Passed()))
	for _, err := range problems {
		con.Warn("%v", err)
	}
	size := 0
	for _, s := range found {
		if s.ByHand {
			continue
		}
		for _, note := range s.Notes {
			con.Note("skill %s: %s", s.Name, note)
		}
		if size += len(s.Name) + len(s.Description); size > maxList {
			con.Warn("skill %s and those after it: left out; the list may have %d KiB", s.Name, maxList>>10)
			break
		}
		s.File = ws.Relative(s.File)
		list = append(list, s)
	}
	return list
}

// Told returns what a sub-agent is told of the list. It has its owner read one.
func (l List) Told() (told []wire.Skill) {
	for _, s := range l {
		told = append(told, wire.Skill{Name: s.Name, Description: s.Description})
	}
	return told
}

// Of returns the list of which a sub-agent was told, without what can be read.
func Of(told []wire.Skill) (list List) {
	for _, s := range told {
		list = append(list, profiles.Skill{Name: s.Name, Description: s.Description})
	}
	return list
}

// Section returns the list for the prompt of an agent that has the tool skill.
func (l List) Section() []model.Section {
	if len(l) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString("# Skills\n\nInstructions for kinds of work. Read one with `skill(name)` before you do such work.\n")
	for _, s := range l {
		fmt.Fprintf(&b, "\n- %s: %s", s.Name, s.Description)
	}
	return []model.Section{{Text: b.String()}}
}

// Texts returns what the tool skill can return.
func (l List) Texts() []rule.HeldTool {
	texts := make([]rule.HeldTool, len(l))
	for i, s := range l {
		texts[i] = rule.HeldTool{Name: s.Name, Description: s.Description + "\n" + s.Body}
	}
	return texts
}

// Read is the tools.Func of the tool skill: it returns a skill of the list.
func (l List) Read(_ context.Context, c tools.Call) (tools.Result, error) {
	var a struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(c.Arguments, &a); err != nil {
		return tools.Result{}, fmt.Errorf("arguments: %w", err)
	}
	var names []string
	for _, s := range l {
		if s.Name == a.Name {
			return tools.Result{Text: fmt.Sprintf("Skill %s, in the folder %s\n\n%s", s.Name, filepath.ToSlash(filepath.Dir(s.File)), s.Body)}, nil
		}
		names = append(names, s.Name)
	}
	return tools.Result{Text: fmt.Sprintf("no skill %q; there are: %s", a.Name, cmp.Or(strings.Join(names, ", "), "none")), IsError: true}, nil
}
