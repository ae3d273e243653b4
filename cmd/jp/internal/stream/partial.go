package stream

// Partial is one step of an assistant message, as the Anthropic API streams it: message_start, the
// blocks one after the other, message_delta, message_stop. The complete message follows as an
// Assistant.
type Partial struct {
	Event Event `json:"event"`
}

// Event is a step of a message.
type Event struct {
	Type         string    `json:"type"`
	Message      *Message  `json:"message,omitempty"`       // with message_start, without content
	Index        *int      `json:"index,omitempty"`         // index of a block
	ContentBlock *Opened   `json:"content_block,omitempty"` // with content_block_start
	Delta        *Delta    `json:"delta,omitempty"`         // with content_block_delta and message_delta
	Usage        *APIUsage `json:"usage,omitempty"`         // with message_delta
}

// Opened is a block whose content follows.
type Opened struct {
	Type  string    `json:"type"` // "text", "tool_use"
	Text  *string   `json:"text,omitempty"`
	ID    string    `json:"id,omitempty"`
	Name  string    `json:"name,omitempty"`
	Input *struct{} `json:"input,omitempty"`
}

// Delta is what is added to a block, or to the message.
type Delta struct {
	Type        string  `json:"type,omitempty"` // "text_delta", "input_json_delta"; "" in a message_delta
	Text        string  `json:"text,omitempty"`
	PartialJSON string  `json:"partial_json,omitempty"`
	StopReason  *string `json:"stop_reason,omitempty"`
}

// Parts turns what a model says into the steps of messages, one message after the other. In the
// zero value no message has begun.
type Parts struct {
	Model string
	Write func(Line)
	NewID func() string // makes the id of a message

	id   string // id of the message that has begun; "" = none has
	text bool   // whether its first block is open
}

// Text adds to the message.
func (p *Parts) Text(delta string) {
	if delta == "" {
		return
	}
	p.begin()
	if !p.text {
		p.text = true
		p.open(0, Opened{Type: "text", Text: new(string)})
	}
	p.delta(0, Delta{Type: "text_delta", Text: delta})
}

// End completes the message with what m has besides the text, and sets in m the id of the message.
func (p *Parts) End(m *Message) {
	p.begin()
	m.ID = p.id
	for i, b := range m.Content {
		switch {
		case b.Type == "tool_use":
			p.open(i, Opened{Type: b.Type, ID: b.ID, Name: b.Name, Input: &struct{}{}})
			p.delta(i, Delta{Type: "input_json_delta", PartialJSON: string(b.Input)})
		case !p.text: // the text was held back until it was checked
			p.Text(b.Text)
		}
		p.step(Event{Type: "content_block_stop", Index: &i})
	}
	u := m.Usage
	p.step(Event{Type: "message_delta", Delta: &Delta{StopReason: m.StopReason}, Usage: &u})
	p.step(Event{Type: "message_stop"})
	p.id, p.text = "", false
}

func (p *Parts) begin() {
	if p.id == "" {
		p.id = p.NewID()
		m := NewMessage(p.id, p.Model, "", "", nil, Usage{})
		p.step(Event{Type: "message_start", Message: &m})
	}
}

func (p *Parts) open(i int, b Opened) {
	p.step(Event{Type: "content_block_start", Index: &i, ContentBlock: &b})
}
func (p *Parts) delta(i int, d Delta) {
	p.step(Event{Type: "content_block_delta", Index: &i, Delta: &d})
}
func (p *Parts) step(e Event) { p.Write(&Partial{Event: e}) }
