package run

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"jp/cmd/jp/internal/model"
	"jp/profiles"
	"jp/tools"
)

// maxSkillList bounds what the list of skills adds to every request, in bytes.
const maxSkillList = 16 << 10

// Skills are those that a run here may read: of the home folder, and of the workspace if it is
// trusted.
func (env *Env) Skills(ctx context.Context) []profiles.Skill {
	found, problems := profiles.Skills(env.WS.TrustedSources(ctx))
	for _, err := range problems {
		env.Con.Warn("%v", err)
	}
	var list []profiles.Skill
	size := 0
	for _, s := range found {
		for _, note := range s.Notes {
			env.Con.Note("skill %s: %s", s.Name, note)
		}
		if size += len(s.Name) + len(s.Description); size > maxSkillList {
			env.Con.Warn("skill %s and those after it: left out; the list may have %d KiB", s.Name, maxSkillList>>10)
			break
		}
		list = append(list, s)
	}
	return list
}

// offerSkills returns the list of skills for the prompt of an agent that has the tool skill.
func offerSkills(list []profiles.Skill) []model.Section {
	if len(list) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString("# Skills\n\nInstructions for kinds of work. Read one with `skill(name)` before you do such work.\n")
	for _, s := range list {
		fmt.Fprintf(&b, "\n- %s: %s", s.Name, s.Description)
	}
	return []model.Section{{Text: b.String()}}
}

// ReadSkill returns the function of the tool skill. It returns a skill of the list, as it was when
// the run began.
func (env *Env) ReadSkill(list []profiles.Skill) tools.Func {
	return func(_ context.Context, c tools.Call) (tools.Result, error) {
		var a struct {
			Name string `json:"name"`
		}
		if err := json.Unmarshal(c.Arguments, &a); err != nil {
			return tools.Result{}, fmt.Errorf("arguments: %w", err)
		}
		var names []string
		for _, s := range list {
			if s.Name == a.Name {
				folder := filepath.ToSlash(env.WS.Relative(filepath.Dir(s.File)))
				return tools.Result{Text: fmt.Sprintf("Skill %s, in the folder %s\n\n%s", s.Name, folder, s.Body)}, nil
			}
			names = append(names, s.Name)
		}
		return tools.Result{Text: fmt.Sprintf("no skill %q; there are: %s", a.Name, cmp.Or(strings.Join(names, ", "), "none")), IsError: true}, nil
	}
}
