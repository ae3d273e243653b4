package model

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"jp/profiles/effort"
	"jp/tools/brief"
	"jp/tools/jsondoc"
)

// Check reports the first thing in the request that a real provider rejects: a message without
// content, or with content that does not fit its role; a call without a result right after it, or a
// result without a call; an id that is used twice; a thread that ends with the assistant. All
// providers check, so that a script model finds what would fail with a real one. The error is an
// *Error of KindBadRequest.
func (r Request) Check() error {
	bad := func(format string, args ...any) error {
		return &Error{Kind: KindBadRequest, Final: true, Message: fmt.Sprintf(format, args...)}
	}
	if len(r.Messages) == 0 {
		return bad("no messages")
	}
	offered := make(map[string]bool)
	for _, t := range r.Tools {
		var schema map[string]json.RawMessage
		switch {
		case t.Name == "":
			return bad("a tool without a name is offered")
		case offered[t.Name]:
			return bad("tool %q is offered twice", t.Name)
		case json.Unmarshal(t.Schema, &schema) != nil || schema == nil:
			return bad("tool %q: its schema is not a JSON object", t.Name)
		}
		offered[t.Name] = true
	}
	if r.Reasoning != "" && !slices.Contains(effort.Levels(), r.Reasoning) {
		return bad("reasoning %q: must be %s", r.Reasoning, brief.Or(effort.Levels()))
	}
	if r.ToolChoice != "" && r.ToolChoice != "none" {
		return bad("tool choice %q: must be none or nothing", r.ToolChoice)
	}
	if r.MaxTokens < 0 {
		return bad("%d output tokens", r.MaxTokens)
	}
	if len(r.Schema) > 0 && !json.Valid(r.Schema) {
		return bad("the answer's schema is not JSON")
	}

	used := make(map[string]bool) // ids of calls
	var open map[string]bool      // calls of the last assistant message that wait for results
	for i, m := range r.Messages {
		if len(m.Content) == 0 {
			return bad("message %d has no content", i+1)
		}
		if len(open) > 0 && m.Role != ToolRole {
			return bad("message %d: results are missing for %d calls before it", i+1, len(open))
		}
		if m.Role == Assistant {
			open = make(map[string]bool)
		}
		for _, c := range m.Content {
			if c.kinds() != 1 || !c.belongs(m.Role) {
				return bad("message %d: content does not fit the role %q", i+1, m.Role)
			}
			switch {
			case c.Image != nil:
				if !slices.Contains(ImageTypes(), c.Image.MediaType) || len(c.Image.Data) == 0 {
					return bad("message %d: an image of type %q", i+1, c.Image.MediaType)
				}
			case c.Call != nil:
				if id := c.Call.ID; id == "" || used[id] {
					return bad("message %d: tool call id %q is not unique", i+1, id)
				} else {
					used[id], open[id] = true, true
				}
			case c.Result != nil:
				if !open[c.Result.ID] {
					return bad("message %d: result for %q, which is no open call", i+1, c.Result.ID)
				}
				delete(open, c.Result.ID)
			}
		}
	}
	if last := r.Messages[len(r.Messages)-1]; last.Role == Assistant {
		return bad("the thread ends with the assistant")
	}
	if len(open) > 0 {
		return bad("results are missing for %d calls", len(open))
	}
	return nil
}

func (c Content) kinds() (n int) {
	for _, set := range []bool{c.Text != "", c.Image != nil, c.Reasoning != nil, c.Call != nil, c.Result != nil} {
		if set {
			n++
		}
	}
	return n
}

func (c Content) belongs(r Role) bool {
	switch r {
	case User:
		return c.Text != "" || c.Image != nil
	case Assistant:
		return c.Result == nil && c.Image == nil
	case ToolRole:
		return c.Result != nil
	}
	return false
}

// Calls collects the tool calls of one reply. It holds what a Stream promises of them: their order,
// arguments that are never empty, ids that are unique within the conversation, no call twice, and
// none that was cut off.
type Calls struct {
	used  map[string]bool
	said  map[[sha256.Size]byte]bool // sums of calls as their server says them
	calls []*Call
	bare  bool // whether the last one came without arguments
	whole int  // number of calls behind which something else began
}

// NewCalls returns the collection for a reply to r.
func NewCalls(r Request) *Calls {
	c := &Calls{used: make(map[string]bool), said: make(map[[sha256.Size]byte]bool)}
	maps.Copy(c.used, r.CallIDs)
	for _, m := range r.Messages {
		for _, part := range m.Content {
			if part.Call != nil {
				c.used[part.Call.ID] = true
			}
		}
	}
	return c
}

// Len returns how many calls there are.
func (c *Calls) Len() int { return len(c.calls) }

// Add adds a complete call and returns its id. Where a server gives no id, or counts ids from 1 in
// each reply, the call gets an id of ours: the id of a call names what it started, so it must be
// unique. It gets one as well where its id could name what another call started, or is longer than
// the ledger takes. A name that is longer than that of any tool is cut. Some servers say a call
// twice, with one id: it is added once, and Add returns "".
func (c *Calls) Add(id, name string, arguments []byte) string {
	bare := len(arguments) == 0
	if bare {
		arguments = []byte("{}")
	}
	this := sha256.Sum256(slices.Concat([]byte(id+"\x00"+name+"\x00"), jsondoc.Canonical(arguments)))
	if id != "" && c.said[this] {
		return ""
	}
	c.bare, c.said[this] = bare, true
	if c.used[id] || Reserved(id) {
		id = "call_" + rand.Text()
	}
	c.used[id] = true
	c.calls = append(c.calls, &Call{ID: id, Name: brief.Prefix(name, LongestName), Arguments: arguments})
	return id
}

// Next notes that something else of the reply begins: no call that was added was cut off.
func (c *Calls) Next() { c.whole = len(c.calls) }

// longestID is the length in bytes of the longest id of a call that is kept. Each delegation of a
// call is in the ledger under that id and a number.
const longestID = 512

// LongestName is the length in bytes of the longest name of a call that is kept. It is shown, stored
// and sent again.
const LongestName = 256

// What begins the ids of calls that no model makes.
const (
	CallOfBatch   = "batch-"      // of jp batch
	CallByHand    = "hand-"       // of a person
	CallOfContext = "jp-context-" // of a result in the system prompt
	CallOfServer  = "jp-mcp-"     // of a question to an editor about an MCP server
)

// Reserved reports whether no call of a model has this id: it is none, too long, or one that only
// jp gives. The ledger puts "#" or "/" and a number behind the id of a call for each of several
// delegations.
func Reserved(id string) bool {
	return id == "" || len(id) > longestID || strings.ContainsAny(id, "#/") ||
		slices.ContainsFunc([]string{CallOfBatch, CallByHand, CallOfContext, CallOfServer}, func(begins string) bool {
			return strings.HasPrefix(id, begins)
		})
}

// Finish returns the calls of a reply that ended with stop, and the right stop: some servers end a
// reply with calls as if it had none. In a reply that was cut off, a call at its end was cut too if its
// arguments are not JSON or had not begun, and is left out.
func (c *Calls) Finish(stop Stop) ([]*Call, Stop) {
	calls := c.calls
	cut := stop == StopMaxTokens || stop == StopRefusal
	if last := len(calls) - 1; cut && last >= c.whole && (c.bare || !json.Valid(calls[last].Arguments)) {
		calls = calls[:last]
	}
	if stop == StopEnd && len(calls) > 0 {
		stop = StopToolUse
	}
	if stop == StopToolUse && len(calls) == 0 {
		stop = StopEnd
	}
	return calls, stop
}

// Object returns the arguments as a JSON object, because wire formats cannot send anything else
// back to the model. Arguments that are not an object, or nested too deep, are in it as a string,
// under "invalid_arguments".
func (c Call) Object() json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(c.Arguments, &object) == nil && object != nil && !jsondoc.Deep(c.Arguments, jsondoc.MaxDepth) {
		return jsondoc.Sound(c.Arguments)
	}
	wrapped, err := jsondoc.Encode(map[string]string{"invalid_arguments": runes(string(c.Arguments))})
	if err != nil {
		return json.RawMessage("{}") // not reached: strings always marshal
	}
	return wrapped
}

// FitID makes the id of a call of another provider fit for a wire format that takes at most most
// bytes of letters, digits, "_" and "-". The same id always gives the same result, so that a call
// and its result still have the same id.
func FitID(id string, most int) string {
	if FitName(id, most) == id {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:12])
}

// FitName does the same for the name of a tool that a model of another provider invented.
func FitName(name string, most int) string {
	fit := strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	if fit == "" {
		return "_"
	}
	return fit[:min(len(fit), most)]
}
