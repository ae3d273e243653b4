// Floor does the least for the work of a `jp query`: it asks the model, starts children that each
// ask it once, and commits as often as it is told to one bbolt file. It reads no config, checks
// nothing and keeps the store to itself.
//
//	floor URL QUERY                          a child: asks once and prints what came
//	floor URL QUERY FILE COMMITS CHILDREN    the owner of FILE
package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"go.etcd.io/bbolt"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("floor: ")
	url, query := os.Args[1], os.Args[2]
	if len(os.Args) == 3 {
		_, err := os.Stdout.Write(ask(url, query))
		must(err)
		return
	}
	commits, err := strconv.Atoi(os.Args[4])
	must(err)
	children, err := strconv.Atoi(os.Args[5])
	must(err)
	db, err := bbolt.Open(os.Args[3], 0o600, &bbolt.Options{NoStatistics: true})
	must(err)
	s := &store{db: db, text: []byte(query)}
	each := commits / (children + 1)
	s.commit(commits - each*children)
	s.text = ask(url, query)
	if children > 0 {
		var all sync.WaitGroup
		for range children {
			all.Go(func() {
				s.commit(each / 2)
				_, err := exec.Command(os.Args[0], url, "part").Output()
				must(err)
				s.commit(each - each/2)
			})
		}
		all.Wait()
		s.text = ask(url, "go on")
	}
	must(db.Close())
}

// store is the file, and what the next commit writes to it.
type store struct {
	db   *bbolt.DB
	text []byte
}

// commit makes n durable transactions, each with one event.
func (s *store) commit(n int) {
	for range n {
		must(s.db.Update(func(tx *bbolt.Tx) error {
			events, err := tx.CreateBucketIfNotExists([]byte("events"))
			if err != nil {
				return err
			}
			id, err := events.NextSequence()
			if err != nil {
				return err
			}
			return events.Put(fmt.Appendf(nil, "%016x", id), s.text)
		}))
	}
}

// ask returns what the model's server streams.
func ask(url, query string) []byte {
	body := fmt.Sprintf(`{"model":"bench","max_tokens":100,"stream":true,"messages":[{"role":"user","content":%q}]}`, query)
	request, err := http.NewRequest(http.MethodPost, url+"/v1/messages", strings.NewReader(body))
	must(err)
	request.Header = http.Header{"Content-Type": {"application/json"}, "X-Api-Key": {"k"}, "Anthropic-Version": {"2023-06-01"}}
	response, err := http.DefaultClient.Do(request)
	must(err)
	text, err := io.ReadAll(response.Body)
	must(err)
	if response.StatusCode != http.StatusOK || !bytes.Contains(text, []byte("message_stop")) {
		log.Fatalf("%s: %s", response.Status, text)
	}
	return text
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
