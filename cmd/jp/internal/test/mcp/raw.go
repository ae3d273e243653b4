package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// raw is a server that writes its messages by itself. way is how it answers a call of echo:
//
//	twice     two answers
//	ids       answers to what nobody asked before, under ids of every kind
//	types     a result of the wrong types
//	null      no result
//	kinds     content of kinds that there are not
//	error     an error with control characters
//	large     an answer that is larger than a client takes
//	large-end the same with its id behind the result
//	stray     a line that is no message before the answer
//	batch     an answer in a list, as an old version of the protocol has it
//	pings     many pings, and the number of answers that it got
//	asks      requests of a server, and what they were answered with
//	changes   many times that its list has changed
//	notes     notifications without end, and reads no more
//	requests  requests without end, and reads no more
//	ids-large requests with an id that is too large
//	line      a line without end
//	after     the right answer, and then notifications without end
//
// and what it does before there is a call:
//
//	two       lists two tools of one name
//	pages     lists its tools on pages without end
//	loud      says much on stderr
//	version   speaks a protocol of its own
//	nothing   answers the handshake with nothing
//	old       ignores what it does not know
//	gated     lists its tools when somebody has opened the named pipe GATE for writing, and closed it;
//	          it says with each answer to a call that its list has changed
//	news      speaks the protocol of 2026-07-28, has another tool after each call and says so before
//	          the answer, and says that its list holds for an hour
func raw(way string) {
	in := bufio.NewReader(os.Stdin)
	out := bufio.NewWriter(os.Stdout)
	read := func() (m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Error  *struct{ Code int }
	}) {
		line, err := in.ReadBytes('\n')
		if err != nil || json.Unmarshal(line, &m) != nil {
			os.Exit(0)
		}
		return m
	}
	say := func(format string, args ...any) {
		fmt.Fprintf(out, format+"\n", args...)
		if out.Flush() != nil {
			os.Exit(0)
		}
	}
	result := func(id any, text string) { say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, text) }
	text := func(id any, text string) {
		result(id, fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, text))
	}
	note := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + strings.Repeat("x", 4000) + `"}}`
	for calls := 0; ; {
		m := read()
		switch m.Method {
		case "initialize":
			version := "2025-06-18"
			switch way {
			case "version":
				version = "1066-10-14"
			case "nothing":
				result(m.ID, "null")
				continue
			case "loud":
				fmt.Fprint(os.Stderr, strings.Repeat("\x1b[31mwarning\x1b[0m: no licence\n", 300), strings.Repeat("y", 100_000))
			}
			result(m.ID, `{"protocolVersion":"`+version+`","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"raw","version":"1"}}`)
		case "tools/list":
			const echo = `{"name":"echo","inputSchema":{"type":"object"}}`
			switch way {
			case "two":
				result(m.ID, `{"tools":[`+echo+`,`+echo+`]}`)
			case "pages":
				result(m.ID, `{"tools":[],"nextCursor":"again"}`)
			case "news":
				result(m.ID, fmt.Sprintf(`{"resultType":"complete","ttlMs":3600000,"tools":[{"name":"echo%d","inputSchema":{"type":"object"}}]}`, calls))
			case "gated":
				_, _ = os.ReadFile(os.Getenv("GATE"))
				fallthrough
			default:
				result(m.ID, `{"tools":[`+echo+`]}`)
			}
		case "tools/call":
			switch way {
			case "twice":
				text(m.ID, "first")
				text(m.ID, "second")
			case "ids":
				for _, id := range []string{"999", `"999"`, "-1", "1.5", `"` + string(m.ID) + `"`} {
					text(id, "for somebody else")
				}
				text(m.ID, "for you")
			case "types":
				result(m.ID, `{"content":"text","isError":"no"}`)
			case "null":
				result(m.ID, "null")
			case "kinds":
				result(m.ID, `{"content":[{"type":"hologram","data":"x"},{"type":"text","text":"after it"}]}`)
			case "error":
				say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no\u001b[31m such thing"}}`, m.ID)
			case "large":
				text(m.ID, strings.Repeat("x", 9<<20))
			case "large-end":
				say(`{"result":{"content":[{"type":"text","text":"%s,\"id\":1}"}]},"jsonrpc":"2.0","id":%s}`, strings.Repeat("x", 9<<20), m.ID)
			case "stray":
				say("debug: called")
				text(m.ID, "answer")
			case "batch":
				say(`[{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"in a list"}]}}]`, m.ID)
			case "pings":
				n := 0
				for range 500 {
					say(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
					if a := read(); string(a.ID) == `"p"` && a.Error == nil {
						n++
					}
				}
				text(m.ID, fmt.Sprintf("%d answers", n))
			case "asks":
				var codes []string
				for _, method := range []string{"roots/list", "sampling/createMessage", "elicitation/create", "tools/call", "nonsense"} {
					say(`{"jsonrpc":"2.0","id":7,"method":%q,"params":{}}`, method)
					a := read()
					if a.Error == nil {
						a.Error = &struct{ Code int }{}
					}
					codes = append(codes, fmt.Sprint(method, " ", a.Error.Code))
				}
				text(m.ID, strings.Join(codes, ", "))
			case "changes":
				for range 2000 {
					say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				}
				text(m.ID, "changed")
			case "notes":
				for {
					say("%s", note)
				}
			case "requests":
				for i := 0; ; i++ {
					say(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i)
				}
			case "ids-large":
				say(`{"jsonrpc":"2.0","id":%q,"method":"ping"}`, strings.Repeat("i", 1000))
			case "line":
				for {
					_, _ = out.WriteString(strings.Repeat(" ", 4096))
					if out.Flush() != nil {
						os.Exit(0)
					}
				}
			case "old":
				text(m.ID, "right")
			case "news":
				calls++
				say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				result(m.ID, `{"resultType":"complete","content":[{"type":"text","text":"right"}]}`)
			case "gated":
				say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				text(m.ID, "right")
			case "after":
				text(m.ID, "right")
				for {
					say("%s", note)
				}
			}
		default:
			if way == "news" && m.Method == "server/discover" {
				result(m.ID, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}}`)
				continue
			}
			if m.ID != nil && way != "old" {
				say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
			}
		}
	}
}
