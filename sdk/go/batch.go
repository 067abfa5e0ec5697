package plugin

// Batch is a batch of nodes for the tests of a plugin, without a host.
type Batch struct {
	count   int
	pod     string
	config  string
	columns []column
}

type column struct {
	texts   []*string
	numbers []int64
}

// NewBatch returns a batch of count nodes; add columns in the order of the description.
func NewBatch(count int) *Batch { return &Batch{count: count, pod: "{}"} }

// Pod sets the pod, as JSON.
func (b *Batch) Pod(json string) *Batch {
	b.pod = json
	return b
}

// Config sets guestConfig.
func (b *Batch) Config(text string) *Batch {
	b.config = text
	return b
}

// Texts adds a column of texts, one for each node; nil for none.
func (b *Batch) Texts(texts ...*string) *Batch {
	b.columns = append(b.columns, column{texts: texts})
	return b
}

// Numbers adds a column of numbers, one for each node.
func (b *Batch) Numbers(numbers ...int64) *Batch {
	b.columns = append(b.columns, column{numbers: numbers})
	return b
}

// Filter returns the result of a plugin's filter.
func (b *Batch) Filter(p Plugin) ([]byte, error) {
	block, at := b.block(1)
	err := Filter(p, block)
	return block[at : at+b.count], err
}

// Score returns the result of a plugin's score.
func (b *Batch) Score(p Plugin) ([]int64, error) {
	block, at := b.block(8)
	if err := Score(p, block); err != nil {
		return nil, err
	}
	scores := make([]int64, b.count)
	for node := range scores {
		scores[node] = (&Numbers{block[at:]}).Get(node)
	}
	return scores, nil
}

// block returns the host's encoding, and the offset of the answers.
func (b *Batch) block(width int) ([]byte, int) {
	block := make([]byte, 40)
	put := func(bytes []byte) int {
		block = append(block, make([]byte, (8-len(block)%8)%8)...)
		block = append(block, bytes...)
		return len(block) - len(bytes)
	}
	pod, config := put([]byte(b.pod)), put([]byte(b.config))
	var columns []byte
	for _, column := range b.columns {
		if column.texts == nil {
			var values []byte
			for _, number := range column.numbers {
				values = appendWord(appendWord(values, int(uint32(number))), int(uint32(uint64(number)>>32)))
			}
			columns = appendWord(appendWord(appendWord(appendWord(columns, 1), put(values)), 0), 0)
			continue
		}
		var values, list []byte
		known := map[string]int{}
		for _, text := range column.texts {
			if text == nil {
				values = appendWord(values, -1)
				continue
			}
			number, ok := known[*text]
			if !ok {
				number = len(known)
				known[*text] = number
				list = appendWord(appendWord(list, put([]byte(*text))), len(*text))
			}
			values = appendWord(values, number)
		}
		columns = appendWord(appendWord(appendWord(appendWord(columns, 0), put(values)), put(list)), len(known))
	}
	list := put(columns)
	at := put(make([]byte, width*b.count))
	var header []byte
	for _, number := range []int{b.count, pod, len(b.pod), config, len(b.config), list, len(b.columns), at, len(block), 0} {
		header = appendWord(header, number)
	}
	copy(block, header)
	return block, at
}

func appendWord(bytes []byte, number int) []byte {
	word := uint32(number)
	return append(bytes, byte(word), byte(word>>8), byte(word>>16), byte(word>>24))
}
