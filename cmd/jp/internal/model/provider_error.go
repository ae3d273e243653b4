package model

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"jp/cmd/jp/internal/model/overflow"
	"jp/cmd/jp/internal/model/reset"
)

// problem is the content of the body of an error.
type problem struct {
	message, kind, code string
}

// parseErrorBody reads the body of an error: JSON, or anything else as text. Markup yields nothing.
func parseErrorBody(body []byte) problem {
	body = bytes.TrimSpace(body)
	switch {
	case json.Valid(body):
		return told(body, 8)
	case len(body) == 0 || strings.IndexByte("<{[", body[0]) >= 0 || !utf8.Valid(body):
		return problem{}
	}
	return problem{message: string(body)}
}

// told returns what valid JSON says of an error, down to some depth: the objects of Anthropic,
// OpenAI and the servers that follow them, {"error":{"message","type","code"}}, {"error":"..."},
// {"message"} and {"detail"}; Gemini's, which are entries of a list; FastAPI's, in a list too, of what
// is wrong with a value ("msg") and where it is ("loc"). All else takes no memory.
func told(raw []byte, depth int) (p problem) {
	var first [1]json.RawMessage // Go leaves out the rest of a list
	var o struct {
		Error, Message, Detail, Msg json.RawMessage
		Type, Code                  Str
		Loc                         [8]Str
	}
	switch {
	case depth == 0 || len(raw) == 0:
	case raw[0] == '"':
		_ = json.Unmarshal(raw, &p.message)
	case raw[0] == '[':
		_ = json.Unmarshal(raw, &first)
		return told(first[0], depth-1)
	case raw[0] == '{':
		_ = json.Unmarshal(raw, &o) // a field of another type says nothing
		p = told(o.Error, depth-1)
		p.kind, p.code = cmp.Or(p.kind, o.Type.Text), cmp.Or(p.code, o.Code.Text)
		for _, other := range []json.RawMessage{o.Message, o.Detail, o.Msg} {
			p.message = cmp.Or(p.message, told(other, depth-1).message)
		}
		var where []string
		for _, l := range o.Loc {
			where = append(where, l.Text)
		}
		if at := strings.TrimRight(strings.Join(where, "."), "."); at != "" && p.message != "" {
			p.message = at + ": " + p.message
		}
	}
	return p
}

// statusError returns the *Error of an HTTP response with an error status.
func (c Config) statusError(status int, header http.Header, body []byte) *Error {
	p := parseErrorBody(body)
	e := &Error{Provider: c.Name, Status: status, Message: c.Clean(p.message)}
	if e.Message == "" {
		e.Message = strings.ToLower(http.StatusText(status))
	}
	e.Kind = statusKind(status)
	c.refine(e, p)
	e.RetryAfter = reset.In(header, p.message, e.Kind.limits(), time.Now())
	// Both vendors send this where repeating cannot help.
	if header.Get("X-Should-Retry") == "false" {
		e.Final = true
	}
	return e
}

// StreamError returns the *Error of an error object that came instead of an event, with a status of
// 200.
func (c Config) StreamError(body []byte) *Error {
	p := parseErrorBody(body)
	e := &Error{Provider: c.Name, Kind: KindServer, Message: c.Clean(p.message)}
	if e.Message == "" {
		e.Message = "the provider reported an error without a message"
	}
	if status, err := strconv.Atoi(p.code); err == nil && status >= 400 && status < 600 {
		e.Status, e.Kind = status, statusKind(status)
	}
	c.refine(e, p)
	e.RetryAfter = reset.In(nil, p.message, e.Kind.limits(), time.Now())
	return e
}

func statusKind(status int) Kind {
	switch {
	case status == 401, status == 403:
		return KindAuth
	case status == 402:
		return KindQuota
	case status == 413:
		return KindTooLarge
	case status == 429:
		return KindRateLimit
	case status == 503, status == 529:
		return KindOverloaded
	case status == 408, status == 409, status >= 500:
		return KindServer
	}
	return KindBadRequest
}

// refine sets what the provider's own code for the error says more exactly than its status.
func (c Config) refine(e *Error, p problem) {
	for _, w := range []string{p.code, p.kind} {
		switch w {
		case "authentication_error", "permission_error", "invalid_api_key":
			e.Kind = KindAuth
		case "insufficient_quota", "billing_error", "billing_hard_limit_reached":
			e.Kind = KindQuota
		case "rate_limit_error", "rate_limit_exceeded":
			e.Kind = KindRateLimit
		case "overloaded_error", "overloaded":
			e.Kind = KindOverloaded
		case "api_error", "timeout_error", "server_error":
			if e.Kind == KindBadRequest {
				e.Kind = KindServer
			}
		case "request_too_large":
			e.Kind = KindTooLarge
		case "context_length_exceeded", "exceed_context_size_error":
			e.Kind = KindContext
		case "model_not_found", "model_not_available":
			e.Kind = KindUnknownModel
		case "not_found_error":
			if strings.Contains(p.message, "model") {
				e.Kind = KindUnknownModel
			}
		case "invalid_request_error":
			if e.Kind == KindServer {
				e.Kind = KindBadRequest
			}
		default:
			continue
		}
		break
	}
	switch {
	case (e.Kind == KindBadRequest || e.Kind == KindServer) && overflow.Says(p.message):
		e.Kind = KindContext
	case e.Kind == KindBadRequest && badKey(p.message):
		e.Kind = KindAuth
	case e.Kind == KindBadRequest && e.Status == 404 && noModel(p.message):
		e.Kind = KindUnknownModel
	case e.Kind == KindBadRequest && outOfCredit(p.message):
		e.Kind = KindQuota
	case e.Status == 403 && e.Kind == KindAuth && flagged(p.message):
		e.Kind = KindBadRequest
	}
	switch e.Kind {
	case KindAuth:
		e.Hint = "check the key in " + c.KeyEnv
		if c.Key == "" {
			e.Hint = "no key was sent: name its variable in providers.llm." + c.Name + ".api_key_env"
		}
	case KindUnknownModel:
		e.Hint, e.Model = "check the model id "+c.Model.ID, c.Model.ID
	case KindQuota:
		e.Hint = "the account at " + c.Name + " may not spend more: see its billing page, or choose another model"
	case KindContext:
		e.Hint = "choose a model with a larger window (`jp model ls`)"
	}
	if e.Status == 404 && e.Kind == KindBadRequest {
		e.Hint = "check the base URL " + c.BaseURL
	}
}

// noModel reports whether an error with status 404 is about the model, in the words of Gemini, vLLM
// and OpenAI: others are about the address, or about who serves a model.
func noModel(message string) bool {
	m := strings.ToLower(message)
	return strings.Contains(m, "model") && (strings.Contains(m, "not found") || strings.Contains(m, "not exist") || strings.Contains(m, "no longer available"))
}

// badKey reports whether an error is about the key, in the words of Gemini, which sends the status of
// a wrong request.
func badKey(message string) bool {
	return strings.Contains(message, "pass a valid API key") || strings.HasPrefix(message, "API key expired")
}

// outOfCredit reports whether an error is about what the account may spend, in the words of
// Anthropic, which has no code for it.
func outOfCredit(message string) bool {
	return strings.HasPrefix(message, "You have reached your specified API usage limits") || strings.HasPrefix(message, "Your credit balance is too low")
}

// flagged reports whether an error is about the words of a request, in those of OpenRouter ("...
// requires moderation ... your input was flagged ..."), which sends the status of a key that may
// not do this.
func flagged(message string) bool {
	return strings.Contains(strings.ToLower(message), "your input was flagged")
}

// maxMessage is the most bytes of a provider's words in an error.
const maxMessage = 600

// minKey is the least length of a key that is a secret. People set short ones ("x", "ollama") for
// servers that need none; to remove those would garble messages.
const minKey = 8

// Clean makes text of a provider fit for an error: one short line of printable characters, without
// the key.
func (c Config) Clean(s string) string { return clean(s, c.Key.Reveal()) }

func clean(s, key string) string {
	hide := func(s string) string {
		if len(key) < minKey {
			return s
		}
		return strings.ReplaceAll(s, key, "[key]")
	}
	s = hide(s)
	var b strings.Builder
	space := false
	for _, r := range s {
		if unicode.IsSpace(r) || r == utf8.RuneError {
			space = true
			continue
		}
		// Format characters reorder or hide text on a terminal.
		if !unicode.IsPrint(r) {
			continue
		}
		if space && b.Len() > 0 {
			b.WriteByte(' ')
		}
		space = false
		if b.Len()+utf8.RuneLen(r) > maxMessage {
			b.WriteString(" ...")
			break
		}
		b.WriteRune(r)
	}
	// Again, in case something was removed from inside the key.
	return hide(b.String())
}
