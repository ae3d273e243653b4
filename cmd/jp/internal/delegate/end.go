package delegate

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/stream"
	"jp/convstore"
	"jp/tools"
	"jp/tools/brief"
	"jp/tools/unseen"
)

// ending is how a delegation ended.
type ending struct {
	State    convstore.State
	Reason   string
	Turn     int // of the child; 0 = it began none. Set when it is settled
	Text     string
	Rest     int             // bytes of the text that are left in the store, behind Text
	Calls    int             // calls of its models
	SubCalls int             // calls of sub-agents, as it says itself; 0 where it could not
	Own      convstore.Spend // what it used itself; set when it is settled
	Total    convstore.Spend // what it and all below it used; set when it is settled
	Model    string          // the model that was asked last, or else the granted one
	Took     time.Duration   // from the start of its process, or from when it was reserved
	PID      int
	Started  time.Time
	Stderr   string
	LastTool string
	Hold     time.Duration // time for which its process may still run on another machine

	// why it did not get the context that was asked for; "" = it did, or none was asked for
	NoContext string
}

// answered returns what a turn with these events has handed in.
func answered(turn []convstore.Event) ending {
	e := ending{Text: agent.Answer(turn)}
	for _, ev := range turn {
		if c, ok := ev.Body.(convstore.ModelCall); ok {
			e.Calls++
			e.Model = c.Model
		}
	}
	return e
}

// amend reads from the events of a turn whether its context tool failed. It makes the end an error
// if the answer does not match the schema of the request.
func (e *ending) amend(r request, turn []convstore.Event) {
	if r.context != "" {
		e.NoContext = short(agent.NoContext(turn))
	}
	if r.schema == nil || e.State != convstore.StateOK && e.State != convstore.StatePartial {
		return
	}
	if _, problems := r.schema.Check([]byte(e.Text)); len(problems) > 0 {
		e.State, e.Reason = convstore.StateError, (&agent.SchemaError{Problems: problems}).Error()
	}
}

// response returns an ending for the model, with at most limit bytes of its text. Nothing in it can
// close its wrapper.
func (e *ending) response(child convstore.ID, limit int) tools.Result {
	var b strings.Builder
	fmt.Fprintf(&b, `<response conversation_id="%s" status="%s"`, child, e.State)
	if e.Reason != "" {
		fmt.Fprintf(&b, ` reason="%s"`, attribute(e.Reason))
	}
	fmt.Fprintf(&b, ` tokens="%d"`, e.Total.Tokens())
	if cost := e.Total.Cost(); cost != nil {
		usd, _ := stream.USD(*cost).MarshalJSON()
		fmt.Fprintf(&b, ` cost="%s"`, usd)
	}
	fmt.Fprintf(&b, ` calls="%d"`, e.Calls)
	if e.NoContext != "" {
		fmt.Fprintf(&b, ` context="none: %s"`, attribute(e.NoContext))
	}
	b.WriteString(">\n" + e.text(child, limit) + e.trouble() + "</response>")
	return tools.Result{Text: b.String(), IsError: !e.handedIn()}
}

// handedIn reports whether the child handed in a result.
func (e *ending) handedIn() bool {
	return e.State == convstore.StateOK || e.State == convstore.StatePartial
}

// text returns at most limit bytes of what was handed in. Each line ends with a line break.
func (e *ending) text(child convstore.ID, limit int) string {
	var b strings.Builder
	text := unseen.Neutralize(strings.TrimSpace(e.Text))
	cut, rest := brief.Cut(text, limit)
	rest += e.Rest
	b.WriteString(cut)
	if text != "" {
		b.WriteByte('\n')
	}
	if rest > 0 {
		fmt.Fprintf(&b, "[%d of %d bytes are cut here; read them with jp_conversation_print, id %s, last 1]\n", rest, len(text)+e.Rest, child)
	}
	return unseen.Neutralize(b.String()) // again: the cut can turn the text beside it into markup
}

// shorten leaves in the store what comes behind the first bytes of the text.
func (e *ending) shorten(limit int) {
	cut, rest := brief.Cut(unseen.Neutralize(strings.TrimSpace(e.Text)), limit)
	e.Text, e.Rest = strings.Clone(cut), rest
}

// short returns the beginning of what a sub-agent says of itself, of which nobody is shown more. It
// keeps nothing of the rest.
func short(s string) string { return strings.Clone(brief.Prefix(s, 1<<10)) }

// trouble returns what helps to understand a failure: the last tool call, and what the sub-agent
// wrote on stderr. It is "" where a result was handed in.
func (e *ending) trouble() string {
	var b strings.Builder
	if e.handedIn() {
		return ""
	}
	if e.LastTool != "" {
		last, _ := brief.Cut(e.LastTool, 300)
		fmt.Fprintf(&b, "last tool call: %s\n", last)
	}
	if text := messages(e.Stderr, e.Reason); text != "" {
		fmt.Fprintf(&b, "its last messages:\n%s\n", text)
	}
	return unseen.Neutralize(b.String())
}

// messages returns stderr with the error object that a sub-agent ends with as plain text, or
// without it where the reason says the same.
func messages(stderr, reason string) string {
	rest, last := "", stderr
	if i := strings.LastIndexByte(stderr, '\n'); i >= 0 {
		rest, last = stderr[:i], stderr[i+1:]
	}
	said := errorIn(last)
	if said.Message == "" {
		return stderr
	}
	if reason == "" || !strings.Contains(said.Message, reason) {
		rest += "\n" + said.Message
	}
	return strings.TrimSpace(rest)
}

// saidError is the error that a sub-agent ends with, as it says it itself.
type saidError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// errorIn returns the error object on the last line of stderr; zero = there is none.
func errorIn(stderr string) saidError {
	var object struct {
		Error saidError `json:"error"`
	}
	last := stderr[strings.LastIndexByte(stderr, '\n')+1:]
	if json.Unmarshal([]byte(last), &object) != nil {
		return saidError{}
	}
	object.Error.Code, _ = brief.Cut(attribute(object.Error.Code), 64)
	return object.Error
}

// attribute makes text fit between the double quotes of an attribute: one short line.
func attribute(s string) string {
	s, _ = brief.Cut(strings.Join(strings.Fields(unseen.Neutralize(s)), " "), 300)
	q := strconv.Quote(s)
	q = q[1 : len(q)-1]
	return strings.NewReplacer(`\"`, "'", `\\`, `\`, "<", "&lt;", ">", "&gt;").Replace(q)
}
