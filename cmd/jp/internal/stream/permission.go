package stream

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"jp/tools/brief"
	"jp/tools/jsondoc"
)

// Permission asks the client whether a call may run. Reply answers it.
type Permission struct {
	ID          string // id of the request
	Tool        string
	Call        string
	Input       json.RawMessage // arguments, an object
	Title       string          // one line that names the call
	Description string          // what Input does not show; "" = nothing
	Always      bool            // whether the client may allow all calls of Tool, see Reply.Always
}

// rules are changes of permissions, as clients write them.
type rules struct {
	Type        string `json:"type"` // addRules; others are ignored
	Rules       []rule `json:"rules"`
	Behavior    string `json:"behavior"`    // allow
	Destination string `json:"destination"` // session
}

type rule struct {
	Tool    string `json:"toolName"`
	Content string `json:"ruleContent,omitempty"` // bounds the rule to some calls
}

// Line returns it as JSON with its newline.
func (p Permission) Line() ([]byte, error) {
	type request struct {
		Subtype     string          `json:"subtype"`
		Tool        string          `json:"tool_name"`
		Input       json.RawMessage `json:"input"`
		Call        string          `json:"tool_use_id"`
		Title       string          `json:"title"`
		Description string          `json:"description,omitempty"`
		Suggestions []rules         `json:"permission_suggestions,omitempty"`
	}
	r := request{"can_use_tool", p.Tool, p.Input, p.Call, p.Title, p.Description, nil}
	if p.Always {
		r.Suggestions = []rules{{"addRules", []rule{{Tool: p.Tool}}, "allow", "session"}}
	}
	return controlLine("control_request", p.ID, r)
}

// Withdrawn is the line that takes back a question.
func Withdrawn(id string) ([]byte, error) { return controlLine("control_cancel_request", id, nil) }

func controlLine(kind, id string, request any) ([]byte, error) {
	b, err := json.Marshal(struct {
		Type    string `json:"type"`
		ID      string `json:"request_id"`
		Request any    `json:"request,omitempty"`
	}{kind, id, request})
	return append(b, '\n'), err
}

// Reply is the answer of the client to a Permission.
type Reply struct {
	ID        string // id of the request
	Allow     bool
	Input     json.RawMessage // arguments that it permits; nil = those that it was asked about
	Always    []string        // tools of which it allows all calls in this conversation
	Reason    string          // why it denies the call
	Interrupt bool            // whether the run shall stop too, where it denies the call
	Err       error           // why the line is not a valid answer; nil = it is
}

func readReply(response json.RawMessage) (*Reply, error) {
	var r struct {
		Subtype  string          `json:"subtype"`
		ID       string          `json:"request_id"`
		Response json.RawMessage `json:"response"`
		Error    string          `json:"error"`
	}
	if err := json.Unmarshal(response, &r); err != nil || r.ID == "" {
		return nil, errors.New("control_response: response: has no request_id")
	}
	if r.Subtype != "success" {
		return &Reply{ID: r.ID, Err: fmt.Errorf("the client failed to answer: %s", r.Error)}, nil
	}
	var a struct {
		Behavior  string          `json:"behavior"`
		Input     json.RawMessage `json:"updatedInput"`
		Message   string          `json:"message"`
		Interrupt bool            `json:"interrupt"`
		Rules     json.RawMessage `json:"updatedPermissions"`
	}
	if err := json.Unmarshal(r.Response, &a); err != nil {
		return &Reply{ID: r.ID, Err: fmt.Errorf("the client's answer is none: %w", jsondoc.Explain(err))}, nil
	}
	switch a.Behavior {
	case "allow":
		if string(a.Input) == "null" {
			a.Input = nil
		}
		reply := &Reply{ID: r.ID, Allow: true, Input: a.Input}
		var updates []rules
		if json.Unmarshal(a.Rules, &updates) != nil {
			updates = nil // of another form: nothing that jp could keep
		}
		for _, u := range updates {
			for _, rule := range u.Rules {
				if u.Type == "addRules" && u.Behavior == "allow" && u.Destination == "session" && rule.Content == "" {
					reply.Always = append(reply.Always, rule.Tool)
				}
			}
		}
		return reply, nil
	case "deny":
		return &Reply{ID: r.ID, Reason: a.Message, Interrupt: a.Interrupt}, nil
	}
	return &Reply{ID: r.ID, Err: fmt.Errorf("the client's answer is none: its behavior is %q", brief.Prefix(a.Behavior, 64))}, nil
}

// Same reports whether the reply permits the call with the arguments that it was asked about.
// Clients encode them again: keys may be in another order, and numbers in another form.
func (r Reply) Same(input json.RawMessage) bool {
	if r.Input == nil {
		return true
	}
	var a, b any
	return json.Unmarshal(r.Input, &a) == nil && json.Unmarshal(input, &b) == nil && reflect.DeepEqual(a, b)
}
