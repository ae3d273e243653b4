package model

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"strconv"

	"jp/tools/jsondoc"
)

// Event is one server-sent event of a reply.
type Event struct {
	Name string // "" = the server gave none
	Data []byte // never empty; valid until the next event
	// whether this is a reply of a server that does not stream; only its usage counts, and an error
	// follows
	Whole bool
	// whether the reply ended before the blank line behind the event: Data may be cut off, and
	// counts only where it shows by itself that it is not, as JSON does. Its usage counts then.
	Unended bool
}

// Post sends a request as JSON to a path below the base URL and yields the events of the reply,
// until the connection ends. The error, with which the iteration ends, is that of [Config.Fail].
// The attempt counts from 1, see [Request].
func (c Config) Post(ctx context.Context, path string, header http.Header, attempt int, request any) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		var lines lines
		resp, err := c.post(ctx, path, header, attempt, request)
		if err == nil {
			defer resp.Body.Close()
			lines.from = bufio.NewReaderSize(resp.Body, 32<<10)
			if startsObject(lines.from) {
				err = c.unstreamed(ctx, resp, "JSON", lines.from)
			}
		}
		if err != nil {
			var whole wholeReply
			if !errors.As(err, &whole) || len(whole) == 0 || yield(Event{Data: whole, Whole: true}, nil) {
				yield(Event{}, c.Fail(ctx, err))
			}
			return
		}
		var e Event
		for {
			line, err := lines.next()
			switch {
			case err != nil:
				if err != bufio.ErrTooLong {
					e.take(lines.line)
				}
				if e.Unended = true; (len(e.Data) == 0 || yield(e, nil)) && err != io.EOF {
					yield(Event{}, c.Fail(ctx, err))
				}
				return
			case len(line) > 0:
				e.take(line)
				continue
			case len(e.Data) > 0 && !yield(e, nil):
				return
			}
			e = Event{Data: e.Data[:0]}
		}
	}
}

func (c Config) post(ctx context.Context, path string, header http.Header, attempt int, request any) (*http.Response, error) {
	body, err := jsondoc.Encode(request)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.BaseURL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = header
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "application/json") // as the vendors' own clients, also for streams
	header.Set("User-Agent", "jp")
	header.Set("X-Stainless-Retry-Count", strconv.Itoa(max(attempt-1, 0))) // as they number retries
	client := *c.Client
	client.Transport = once{cmp.Or(client.Transport, http.DefaultTransport)}
	return c.intercept(req, client.Do)
}

// take adds a line to the event. Names of fields are those of the HTML standard, "Server-sent
// events"; a comment has none.
func (e *Event) take(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		e.Name = string(value)
	case "data":
		if len(e.Data) > 0 {
			e.Data = append(e.Data, '\n')
		}
		e.Data = append(e.Data, value...)
	}
}

// maxLine bounds the bytes of a line.
const maxLine = 32 << 20

// lines reads lines that end in a line feed, a carriage return, or both.
type lines struct {
	from *bufio.Reader
	line []byte
	cr   bool // whether the last byte was a carriage return
}

// next returns the next line, which is valid until the next call. With an error, line is what
// follows the last end of a line.
func (l *lines) next() ([]byte, error) {
	l.line = l.line[:0]
	for {
		c, err := l.from.ReadByte()
		if err != nil {
			return nil, err
		}
		after := l.cr
		l.cr = c == '\r'
		switch {
		case c == '\n' && after:
		case c == '\n', c == '\r':
			return l.line, nil
		case len(l.line) == maxLine:
			return nil, bufio.ErrTooLong
		default:
			l.line = append(l.line, c)
		}
	}
}

// Read decodes an event. Data that is no JSON object is an error. A value of another type than its
// field is left out, because servers differ in what they send besides what matters.
func (e Event) Read(into any) error {
	if jsondoc.Crowded(e.Data, jsondoc.MaxValues) {
		return fmt.Errorf("an event of more than %d values", jsondoc.MaxValues)
	}
	err := json.Unmarshal(e.Data, into)
	var t *json.UnmarshalTypeError
	if errors.As(err, &t) && t.Field != "" {
		return nil
	}
	return err
}

// Str is a string in an event. Some servers write a number.
type Str struct {
	Text  string
	Valid bool // whether there is one, and not null or something else
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Str) UnmarshalJSON(raw []byte) error {
	*s = Str{}
	switch raw[0] {
	case '{', '[', 'n':
		return nil
	case '"':
		s.Valid = true
		return json.Unmarshal(raw, &s.Text)
	}
	*s = Str{string(raw), true}
	return nil
}

// Num is a whole number in an event. Some servers write it as a string or with a fraction.
type Num struct {
	N     int64
	Valid bool // whether there is one, and not null or something else
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Num) UnmarshalJSON(raw []byte) error {
	*n = Num{}
	f, err := strconv.ParseFloat(string(bytes.Trim(raw, `"`)), 64)
	if err == nil && math.Abs(f) < 1<<53 {
		*n = Num{int64(f), true}
	}
	return nil
}

// Dollars is an amount of money in an event. Some servers write it as a string, others as an object
// of its parts and their sum.
type Dollars struct {
	Nano *int64 // nano-dollars; nil = there is no valid amount
}

// mostNano bounds an amount of money, as maxTokens does counts: a million dollars.
const mostNano = 1e15

// UnmarshalJSON implements json.Unmarshaler.
func (d *Dollars) UnmarshalJSON(raw []byte) error {
	*d = Dollars{}
	if raw[0] == '{' {
		var parts struct {
			Total json.RawMessage `json:"total_cost"`
		}
		if err := json.Unmarshal(raw, &parts); err != nil {
			return err
		}
		raw = parts.Total
	}
	usd, err := strconv.ParseFloat(string(bytes.Trim(raw, `"`)), 64)
	if (err == nil || math.IsInf(usd, 1)) && usd >= 0 { // infinite: too large for a float
		d.Nano = new(int64(math.Round(min(usd*1e9, mostNano))))
	}
	return nil
}

// Stated is what the usage in an event says of its cost.
type Stated struct {
	Cost        Dollars
	OwnKey      bool `json:"is_byok"`
	CostDetails struct {
		Upstream Dollars `json:"upstream_inference_cost"`
	} `json:"cost_details"`
}

// Paid returns what a reply cost in nano-dollars; nil = it does not say. Where OpenRouter asks with
// a key of the user's, its cost is only its fee.
func (s Stated) Paid() *int64 {
	cost, beside := s.Cost.Nano, s.CostDetails.Upstream.Nano
	if cost == nil || !s.OwnKey || beside == nil {
		return cost
	}
	return new(*cost + *beside)
}

// startsObject reports whether a body begins like a JSON object, which no event stream does. Some
// servers send blanks while they work.
func startsObject(r *bufio.Reader) bool {
	for n := 1; ; n++ {
		b, err := r.Peek(n)
		if err != nil || bytes.IndexByte([]byte(" \t\r\n"), b[n-1]) < 0 {
			return err == nil && b[n-1] == '{'
		}
	}
}

// startsEvents reports whether a body begins like an event stream, which no JSON does.
func startsEvents(r *bufio.Reader) bool {
	b, _ := r.Peek(len("event:")) // what there is
	return bytes.HasPrefix(b, []byte("event:")) || bytes.HasPrefix(b, []byte("data:")) || bytes.HasPrefix(b, []byte(":"))
}
