package care

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
	"jp/profiles"
)

// candidatesListed is the number of models in the list; a server may have many more.
const candidatesListed = 12

// chooseModel returns the model of the flag, of the answer, or the best candidate.
func (g *Group) chooseModel(ctx context.Context, o initOptions, dir string) (string, error) {
	r, err := profiles.Resolve(g.WS.UserSources(), nil, nil)
	if err != nil {
		return "", err
	}
	known := g.Env.Providers(r.Config)
	proposal := ""
	if o.model.Set {
		var bad *profiles.Error
		if proposal, err = r.Config.ResolveModel(o.model.Value); errors.As(err, &bad) {
			return "", exit.Usagef("--model: %s", bad.Msg).WithHint("%s", cmp.Or(bad.Hint, "such as "+model.Examples))
		}
		if wrong := lookup(proposal, known); wrong != nil {
			return "", exit.Usagef("--model: %s", wrong.Message).WithHint("%s", wrong.Advice())
		}
		if o.yes {
			return proposal, nil
		}
	}
	var found []model.Candidate
	if !o.model.Set {
		for _, c := range model.Detect(ctx, g.Con.Getenv) {
			if _, err := r.Config.ResolveModel(c.Model); err == nil {
				found = append(found, c)
			}
		}
	}
	if o.yes {
		if len(found) == 0 {
			return "", exit.Usagef("init: no model found on this machine").
				WithHint("name one with --model provider/model, set ANTHROPIC_API_KEY or OPENAI_API_KEY, or start Ollama")
		}
		g.Con.Note("model: %s (%s)", found[0].Model, found[0].Reason)
		return found[0].Model, nil
	}
	tty, err := g.Con.Terminal()
	if console.Nobody(err) {
		return "", exit.Usagef("init: nobody can be asked").WithHint("jp init --model %s --yes", wording.ShellWord(cmp.Or(proposal, "provider/model")))
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = tty.Close() }()
	question := g.modelQuestion(proposal, found)
	text := "Workspace in " + term.Line(dir) + "\n" + question
	prompt := question[strings.LastIndex(question, "\n")+1:]
	for {
		answer, err := console.AskLine(ctx, tty, text)
		if err != nil {
			return "", err
		}
		n, bad := strconv.Atoi(answer)
		id, unnamed := r.Config.ResolveModel(answer)
		switch {
		case answer == "" && o.model.Set:
			return proposal, nil
		case answer == "" && len(found) > 0:
			return found[0].Model, nil
		case answer == "":
			return "", &exit.Error{Code: "declined", Status: exit.Failed, Msg: "init: no model was chosen, nothing was written"}
		case bad == nil && n > 0 && n <= min(len(found), candidatesListed):
			return found[n-1].Model, nil
		case unnamed == nil:
			wrong := lookup(id, known)
			if wrong == nil {
				return id, nil
			}
			text = g.rows("That cannot be used: " + wrong.Message + ".")
			if hint := wrong.Advice(); hint != "" {
				text += g.rows("hint: " + hint)
			}
			text += prompt
			continue
		}
		text = g.rows(fmt.Sprintf("That is %s provider/model, such as %s.", wording.Either(len(found) > 0, "neither a number of the list nor", "not"), model.Examples)) + prompt
	}
}

// rows breaks a text for the terminal.
func (g *Group) rows(text string) string {
	return strings.Join(term.Hang("", text, cmp.Or(g.Con.IO.Width, 80), 0), "\n") + "\n"
}

// lookup returns what is wrong with the id of a model; nil if its provider is known.
func lookup(id string, known model.Providers) *model.Error {
	_, err := model.Lookup(id, known)
	var wrong *model.Error
	if err != nil && !errors.As(err, &wrong) {
		wrong = &model.Error{Message: err.Error()}
	}
	return wrong
}

// modelQuestion returns the question for a model; its last line is the prompt.
func (g *Group) modelQuestion(proposal string, found []model.Candidate) string {
	switch {
	case proposal != "":
		return "Model [" + proposal + "]: "
	case len(found) == 0:
		return g.rows("No key and no model server was found here. Name the model to use as provider/model, such as "+model.Examples+".") + "Model: "
	}
	text := "Models for which this machine has a key or a server:\n\n"
	listed := found[:min(len(found), candidatesListed)]
	wide := 0
	for _, c := range listed {
		wide = max(wide, term.Width(term.Line(c.Model)))
	}
	for i, c := range listed {
		id := term.Line(c.Model)
		line := fmt.Sprintf("%3d  %s%s  %s", i+1, id, strings.Repeat(" ", wide-term.Width(id)), term.Line(c.Reason))
		if g.Con.IO.Width > 0 {
			line = term.Cut(line, g.Con.IO.Width, g.Con.IO.UTF8)
		}
		text += line + "\n"
	}
	if more := len(found) - len(listed); more > 0 {
		text += fmt.Sprintf("     and %d more, which can be named\n", more)
	}
	return text + "\nNumber, or provider/model [1]: "
}
