package run

import (
	"fmt"
	"io"
	"strings"
	"time"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/models"
	"jp/convstore"
	"jp/profiles"
	"jp/profiles/role"
)

// Request says which conversation to open, what to ask, and what differs from the stored config of
// the conversation.
type Request struct {
	ID      command.Maybe[string] // conversation to continue; "new" = a new one; not set = the terminal's active one, else a new one
	New     bool
	Fork    command.Maybe[int]    // turns to keep of the target, which is forked first; -1 = all
	RootID  command.Maybe[string] // conversation that the target is below, or that delegates a new one
	Title   command.Maybe[string]
	Editor  bool // reports whether an editor begins a session
	Hidden  bool
	Expires command.Maybe[time.Duration]
	Role    string // tool profile of this run; "" = that of the conversation

	Directives []profiles.Directive // values of --cfg, in order
	Flags      []profiles.Directive // flags that set one key each
	Model      string               // model that Flags names; "" = none
	Effort     string               // level of reasoning that Flags names; "" = none
	Toggles    []Toggle
	Only       []string // tools that stay enabled; nil = all
	Word       string   // first word of the request, which may be the value of a flag before it; "" = none
	Prompts    []string // sections to add to the system prompt

	Bounds  convstore.Budget // limit of the whole run
	Session convstore.Change // what Flags say of the sub-agents of the session, for a person who delegates on behalf of a conversation
	Limits  string           // flags that set limits, for a command line that resumes the run

	Task    Task
	Reuse   bool // reports whether an answer that is there from before will do; see Agent.Known
	Unasked bool // reports whether a new conversation is made although nothing is asked yet

	Launcher command.Maybe[string] // launcher of all sub-agents; "" = none; not set = as their profiles say

	Wire io.ReadWriteCloser // connection to the jp that delegated this run; nil = no other jp did

	Asker Asker        // person or client to ask in place of the terminal; nil = the terminal, if there is one
	Aside func(func()) // runs a function while nothing else moves on the terminal; nil = just runs it
	Waits models.Waits // told about waits for a model
}

// UseModel adds --model; "" adds nothing.
func (req *Request) UseModel(model string) {
	if req.Model = model; model != "" {
		req.Flags = append(req.Flags, profiles.Directive{Flag: "--model", Text: "assistant.model=" + model})
	}
}

// UseReasoning adds --reasoning; "" adds nothing.
func (req *Request) UseReasoning(effort string) {
	if req.Effort = effort; effort != "" {
		req.Flags = append(req.Flags, profiles.Directive{Flag: "--reasoning", Text: "assistant.parameters.reasoning=" + effort})
	}
}

// Clean returns the text of a query as it is stored. A NUL byte is an error of usage.
func Clean(text string) (string, error) {
	if strings.ContainsRune(text, 0) {
		return "", exit.Usagef("query: holds a NUL byte")
	}
	return agent.Stored(text), nil
}

// PersonRoles returns the roles that a person may choose. The rule gives a sub-agent its role.
func PersonRoles() []string {
	return []string{role.Main, role.Scheduled, role.Synthesis}
}

// prompts returns sections for the system prompt.
func (req *Request) prompts() []model.Section {
	var list []model.Section
	for _, text := range req.Prompts {
		list = append(list, model.Section{Text: text})
	}
	return list
}

// lasts reports whether a new sub-agent keeps a flag, which gives it nothing and limits no run alone.
func lasts(d profiles.Directive) bool {
	return !d.Once && d.Text != "delegation.enabled:=true"
}

// changes returns what the flags of this run change in its profile, besides the model and what
// sub-agents may use together.
func (req *Request) changes() (list []string) {
	for _, d := range req.Flags {
		if d.Flag != "--model" && d.Flag != "--max-sub-tokens" && d.Flag != "--max-sub-cost" {
			list = append(list, d.Text)
		}
	}
	for _, t := range req.Toggles {
		list = append(list, fmt.Sprintf("%t %q", t.On, t.Name))
	}
	if req.Only != nil {
		list = append(list, fmt.Sprintf("only %q", req.Only))
	}
	if req.Role != "" && req.Role != role.Main {
		list = append(list, "role "+req.Role)
	}
	return append(list, req.Prompts...)
}
