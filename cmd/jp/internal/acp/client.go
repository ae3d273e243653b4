package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"jp/tools/jsondoc"
)

// Client sends the client updates and questions of a running prompt. It is safe for concurrent use.
// After the prompt it sends nothing.
type Client struct {
	conn    *conn
	session string

	ended chan struct{} // closed after the prompt

	mu     sync.Mutex
	closed bool
}

// Tell sends the client an update.
func (c *Client) Tell(u Update) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.conn.tell(c.session, u)
	}
}

// How long a client may leave a message unread where a prompt has to end, and how often that is
// looked at.
const (
	unreadWait = 10 * time.Second
	unreadPoll = time.Second
)

// ErrUnread is the cause of an end because the client did not read what it was sent.
var ErrUnread = errors.New("the client does not read")

// Insist ends everything, with ErrUnread, if the client does not read in time what it is sent from
// now until the prompt ends, when Insist returns. It is for a prompt that has to end: Tell waits
// for the client. If the context of the prompt ends, it is called.
func (c *Client) Insist() {
	for {
		select {
		case c.conn.writing <- struct{}{}:
			<-c.conn.writing
		case <-c.ended:
			return
		case <-time.After(unreadWait):
			c.conn.cancel(ErrUnread)
			return
		}
		select {
		case <-c.ended:
			return
		case <-time.After(unreadPoll):
		}
	}
}

func (c *Client) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	close(c.ended)
}

// Note sends the client's user a line that is not part of the conversation: as a notice, or, if the
// client knows no notices, as a thought that begins with jp.
func (c *Client) Note(how Severity, text string) {
	c.conn.mu.Lock()
	able := has(c.conn.able.Session.Notices)
	c.conn.mu.Unlock()
	if able {
		c.Tell(notice{"notice", how, text})
		return
	}
	c.Tell(aside(map[Severity]string{Warning: "warning: "}[how] + text))
}

// aside returns a thought that begins with jp.
func aside(text string) Chunk {
	return Chunk{Kind: InThought, Content: Text("jp: " + text + "\n")}
}

// ErrUnable is returned if a client cannot ask its user.
var ErrUnable = errors.New("the client cannot ask its user")

// ErrAnswer is returned if the answer of a client has no meaning.
var ErrAnswer = errors.New("the client's answer is none")

// Permit asks for permission to make a call and returns the id of the option that was chosen; "" if
// the user chose none. The error wraps ErrUnable if the client cannot ask, and ErrAnswer if its
// answer is an error or not one of the options. If ctx ends, the error is its cause.
func (c *Client) Permit(ctx context.Context, call ToolCall, options []Option) (string, error) {
	var r struct {
		Outcome struct {
			Outcome string `json:"outcome"`
			Option  string `json:"optionId"`
		} `json:"outcome"`
	}
	call.Kind = ""
	err := c.ask(ctx, "session/request_permission", map[string]any{"sessionId": c.session, "toolCall": call, "options": options}, &r)
	if err != nil {
		return "", err
	}
	switch r.Outcome.Outcome {
	case "cancelled":
		return "", nil
	case "selected":
		for _, o := range options {
			if o.ID == r.Outcome.Option {
				return o.ID, nil
			}
		}
		return "", fmt.Errorf("%w: it chose %q, which is no option", ErrAnswer, clip(r.Outcome.Option))
	}
	return "", fmt.Errorf("%w: its outcome is %q", ErrAnswer, clip(r.Outcome.Outcome))
}

// elicitation is the schema of a form for a question: an answer to choose, to write, or both.
type elicitation struct {
	Type       string `json:"type"`
	Properties struct {
		Choice *field `json:"choice,omitempty"`
		Answer field  `json:"answer"`
	} `json:"properties"`
	Required []string `json:"required,omitempty"`
}

// field is a text in a form.
type field struct {
	Type  string         `json:"type"`
	Title string         `json:"title"`
	Enum  []string       `json:"enum,omitempty"`
	Meta  map[string]any `json:"_meta,omitempty"`
}

// Question asks the client's user a question of a call, with options to choose from if there are
// any. It returns the answer; "" if the user gave none. The errors are those of Permit.
func (c *Client) Question(ctx context.Context, call, question string, options []string) (string, error) {
	c.conn.mu.Lock()
	able := c.conn.able.Elicitation != nil && has(c.conn.able.Elicitation.Form)
	c.conn.mu.Unlock()
	if !able {
		return "", ErrUnable
	}
	form := elicitation{Type: "object"}
	form.Properties.Answer = field{Type: "string", Title: "Answer"}
	if len(options) == 0 {
		form.Required = []string{"answer"}
	} else {
		form.Properties.Choice = &field{Type: "string", Title: "Answer", Enum: options}
		form.Properties.Answer.Title = "Or in your own words"
		form.Properties.Answer.Meta = map[string]any{"_askUserQuestionCustomAnswer": map[string]string{"questionId": "choice"}} // as other agents send it
	}
	var r struct {
		Action  string `json:"action"`
		Content struct {
			Choice string `json:"choice"`
			Answer string `json:"answer"`
		} `json:"content"`
	}
	if err := c.ask(ctx, "elicitation/create", map[string]any{
		"sessionId": c.session, "toolCallId": call, "mode": "form", "message": question, "requestedSchema": form,
	}, &r); err != nil {
		return "", err
	}
	switch {
	case r.Action != "accept":
		return "", nil
	case r.Content.Answer != "":
		return r.Content.Answer, nil
	}
	return r.Content.Choice, nil
}

// ask sends a request and waits for its answer.
func (c *Client) ask(ctx context.Context, method string, params, into any) error {
	k := c.conn
	answer := make(chan message, 1)
	k.mu.Lock()
	k.last++
	id := k.last
	k.asked[id] = answer
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		delete(k.asked, id)
		k.mu.Unlock()
	}()
	k.send(request{"2.0", &id, method, params})
	select {
	case m := <-answer:
		if m.Error != nil {
			why := ErrAnswer
			if m.Error.Code == codeMethod {
				why = ErrUnable
			}
			return fmt.Errorf("%w: %s", why, clip(m.Error.Message))
		}
		if err := json.Unmarshal(or(m.Result, null), into); err != nil {
			return fmt.Errorf("%w: %s", ErrAnswer, jsondoc.Explain(err))
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// answered passes the answer to one of our requests to the goroutine that waits for it.
func (c *conn) answered(m message) {
	id, err := strconv.ParseInt(string(m.ID), 10, 64)
	c.mu.Lock()
	answer := c.asked[id]
	delete(c.asked, id)
	c.mu.Unlock()
	if err != nil || answer == nil {
		c.options.Log("an answer with id %s: nothing was asked", m.ID)
		return
	}
	answer <- m
}
