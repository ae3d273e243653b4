package convstore

// checkLedger compares what accounts say with the delegations that they sum up.
func (c *checker) checkLedger(all []Delegation) {
	type key struct {
		root   ID
		number uint64
	}
	at := func(d Delegation) key { return key{d.Root, d.number} }
	byKey := make(map[key]Delegation, len(all))
	totals := make(map[key]Spend, len(all)) // of the settled ones directly within
	for _, d := range all {
		byKey[at(d)] = d
		if d.State != "" && d.Within != 0 {
			k := key{d.Root, d.Within}
			totals[k] = totals[k].Add(d.Total)
		}
	}
	below := make(map[ID]Spend)
	charge := func(d Delegation, id ID, turn int, s Spend) {
		if r := c.records[id]; r != nil && r.Turns == turn && d.number > r.After {
			below[id] = below[id].Add(s)
		}
	}
	for _, d := range all {
		if d.State == "" {
			continue
		}
		if want := d.Own.Add(totals[at(d)]); d.Total != want {
			c.problem("delegation %s: its total says %+v, counted %+v", d.ID, d.Total, want)
		}
		if d.Imported {
			continue // it is in no account
		}
		if d.Within != 0 && d.Caller != d.Root {
			charge(d, d.Caller, d.Turn, d.Total)
		}
		top, settled := d, true
		for top.Within != 0 && settled {
			up, ok := byKey[key{top.Root, top.Within}]
			if !ok || up.number >= top.number {
				c.problem("delegation %s: is within number %d, which is none before it", top.ID, top.Within)
				break
			}
			top, settled = up, up.State != ""
		}
		if settled {
			charge(d, d.Root, d.Session, d.Own)
		}
	}
	for id, r := range c.records {
		if r.Below != below[id] {
			c.problem("conversation %s: its account has %+v settled, its delegations come to %+v", id, r.Below, below[id])
		}
	}
}
