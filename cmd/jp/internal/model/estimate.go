package model

import "jp/tools/jsondoc"

// Estimate returns a rough number of tokens that the request will count as input: one for every
// three bytes of text, which is high for English and average for code, and for each image the most
// that its model counts. It shows when a thread is long, and is charged if the provider reports no
// count. The bound of what a call may cost comes from a Meter.
func (r Request) Estimate() int64 {
	n, images := len(r.Schema), int64(0)
	for _, s := range r.System {
		n += len(s.Text)
	}
	for _, t := range r.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema) + 16
	}
	for _, m := range r.Messages {
		n += 16
		for _, c := range m.Content {
			n += c.size()
			if c.Image != nil {
				images += imageBound(r.Model, c.Image)
			}
		}
	}
	return int64(n)/3 + images + 1
}

// size is the number of bytes of the texts.
func (c Content) size() int {
	n := len(c.Text)
	if r := c.Reasoning; r != nil {
		n += len(r.Text) + len(r.Signature) + len(r.Opaque)
	}
	if call := c.Call; call != nil {
		n += len(call.ID) + len(call.Name) + len(call.Arguments)
	}
	if r := c.Result; r != nil {
		n += len(r.ID) + len(r.Text)
	}
	return n
}

// Size returns about how many bytes of memory the request takes.
func (r Request) Size() int {
	n := len(r.Schema)
	for _, s := range r.System {
		n += len(s.Text)
	}
	for _, t := range r.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	for _, m := range r.Messages {
		n += 64
		for _, c := range m.Content {
			if n += 64 + c.size(); c.Image != nil {
				n += len(c.Image.Data)
			}
		}
	}
	return n
}

// Thoughts returns about how many values of JSON the blocks of reasoning have that are no text. Each
// can take a hundred times the memory of its bytes where it is decoded.
func (r Request) Thoughts() (n int) {
	for _, m := range r.Messages {
		for _, c := range m.Content {
			if c.Reasoning != nil {
				n += jsondoc.Values(c.Reasoning.Opaque)
			}
		}
	}
	return n
}

// Size returns about how many bytes of memory the part takes.
func (p Part) Size() int {
	n := 64 + len(p.Text) + len(p.ReasoningDelta) + len(p.CallDelta)
	n += Content{Reasoning: p.Reasoning, Call: p.Call}.size()
	return n
}
